// Where the nodes and edges of a plan stand: layers from left to right. Pure; drawing is in plan.js.

export const NODE = { width: 156, height: 52, gapX: 50, gapY: 22, margin: 8 };

// {nodes: [{name, x, y, …}], edges: [{from, to, path}], width, height}. Edges that close a circle are drawn and do not
// count for the layers.
export function layout(nodes, edges) {
  const names = nodes.map((node) => node.name);
  const known = edges.filter(([from, to]) => names.includes(from) && names.includes(to) && from !== to);
  const layer = layers(names, forward(names, known));
  const columns = [];
  for (const name of names) (columns[layer.get(name)] ??= []).push(name);
  settle(columns, known);
  const tallest = Math.max(1, ...columns.map((column) => column.length));
  const step = NODE.height + NODE.gapY;
  const place = new Map();
  columns.forEach((column, x) => {
    const top = ((tallest - column.length) * step) / 2;
    column.forEach((name, y) => {
      place.set(name, {
        x: NODE.margin + x * (NODE.width + NODE.gapX),
        y: NODE.margin + top + y * step,
      });
    });
  });
  return {
    nodes: nodes.map((node) => ({ ...node, ...place.get(node.name) })),
    edges: known.map(([from, to]) => ({ from, to, path: curve(place.get(from), place.get(to)) })),
    width: 2 * NODE.margin + columns.length * NODE.width + Math.max(0, columns.length - 1) * NODE.gapX,
    height: 2 * NODE.margin + tallest * step - NODE.gapY,
  };
}

// The edges without those that lead back to where a walk came from.
function forward(names, edges) {
  const out = new Map(names.map((name) => [name, edges.filter(([from]) => from === name)]));
  const state = new Map();
  const kept = [];
  const visit = (name) => {
    state.set(name, "open");
    for (const edge of out.get(name)) {
      if (state.get(edge[1]) === "open") continue;
      kept.push(edge);
      if (!state.has(edge[1])) visit(edge[1]);
    }
    state.set(name, "closed");
  };
  for (const name of names) if (!state.has(name)) visit(name);
  return kept;
}

// The longest way from a start to each node.
function layers(names, edges) {
  const layer = new Map(names.map((name) => [name, 0]));
  for (let round = 0; round < names.length; round += 1) {
    let moved = false;
    for (const [from, to] of edges) {
      if (layer.get(to) <= layer.get(from)) {
        layer.set(to, layer.get(from) + 1);
        moved = true;
      }
    }
    if (!moved) break;
  }
  return layer;
}

// Orders each column by the mean place of what leads into it, so that fewer edges cross.
function settle(columns, edges) {
  for (let index = 1; index < columns.length; index += 1) {
    const before = columns[index - 1];
    const mean = (name) => {
      const places = edges.filter(([, to]) => to === name).map(([from]) => before.indexOf(from));
      const seen = places.filter((place) => place >= 0);
      return seen.length ? seen.reduce((sum, place) => sum + place, 0) / seen.length : before.length;
    };
    columns[index] = columns[index]
      .map((name, place) => ({ name, place, mean: mean(name) }))
      .sort((a, b) => a.mean - b.mean || a.place - b.place)
      .map(({ name }) => name);
  }
}

function curve(from, to) {
  const middle = NODE.height / 2;
  if (to.x > from.x) {
    const [x1, y1, x2, y2] = [from.x + NODE.width, from.y + middle, to.x, to.y + middle];
    const bend = (x2 - x1) / 2;
    return `M${x1} ${y1} C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
  }
  const [x1, y1, x2, y2] = [from.x + NODE.width / 2, from.y, to.x + NODE.width / 2, to.y];
  return `M${x1} ${y1} C${x1} ${y1 - 40} ${x2} ${y2 - 40} ${x2} ${y2}`;
}
