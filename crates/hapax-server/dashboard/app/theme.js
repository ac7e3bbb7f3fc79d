// Puts the chosen colour scheme on the page before anything is drawn. A classic script, so that it blocks.
(function () {
  try {
    const theme = localStorage.getItem("hapax-theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // Storage can be switched off; then the system's scheme is shown.
  }
})();
