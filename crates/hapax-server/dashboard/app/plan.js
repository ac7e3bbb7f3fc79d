// Draws the plan of a job as SVG: each node coloured by its state, with the state written in it.

import { h, s } from "./dom.js";
import { cut, words } from "./format.js";
import { NODE, layout } from "./graph.js";

const SIGN = { pending: "○", running: "◐", done: "✓", failed: "✕", in_doubt: "?" };

export function planView(graph, focusNode) {
  const drawn = layout(graph.nodes, graph.edges);
  const told = graph.nodes.map((node) => `${node.name}: ${words(node.state)}`).join(", ");
  const picture = s(
    "svg",
    {
      viewBox: `0 0 ${drawn.width} ${drawn.height}`,
      width: drawn.width,
      height: drawn.height,
      role: "img",
      "aria-label": `Plan ${graph.plan}: ${told}`,
      class: "plan",
    },
    s(
      "defs",
      null,
      s(
        "marker",
        { id: "arrow", viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
        s("path", { d: "M0 0 L8 4 L0 8 z", class: "arrow" }),
      ),
    ),
    drawn.edges.map((edge) => s("path", { d: edge.path, class: "edge", "marker-end": "url(#arrow)" })),
    drawn.nodes.map((node) =>
      s(
        "g",
        {
          class: `node state-${node.state}`,
          transform: `translate(${node.x} ${node.y})`,
          onclick: () => focusNode?.(node),
        },
        s("title", null, `${node.name}, ${node.class ?? "no class"}, ${words(node.state)}`),
        s("rect", { width: NODE.width, height: NODE.height, rx: 8 }),
        s("text", { x: 12, y: 22, class: "name" }, cut(node.name, 16)),
        s("text", { x: 12, y: 40, class: "state" }, `${SIGN[node.state] ?? "•"} ${words(node.state)}`),
        node.class
          ? s("text", { x: NODE.width - 10, y: 40, class: "class", "text-anchor": "end" }, cut(words(node.class), 12))
          : null,
      ),
    ),
  );
  return h("div", { class: "scroll plan-box", tabindex: 0, role: "region", "aria-label": "Plan of the job" }, picture);
}
