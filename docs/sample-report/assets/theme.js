// The theme that was chosen before, set before anything is painted.
"use strict";
try {
  const chosen = localStorage.getItem("selftest-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch (error) {
  // Storage is not available everywhere for pages from disk: the theme of the system is used.
}
