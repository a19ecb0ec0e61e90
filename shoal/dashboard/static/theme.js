// Light or dark: as the system says, until somebody says otherwise here.

const system = matchMedia("(prefers-color-scheme: dark)");
const chosen = () => { try { return localStorage.getItem("theme"); } catch { return null; } };

function apply() {
  document.documentElement.dataset.theme = chosen() ?? (system.matches ? "dark" : "light");
  dispatchEvent(new CustomEvent("theme"));
}

export function theme() {
  apply();
  system.addEventListener("change", apply);
  document.getElementById("theme").addEventListener("click", () => {
    try { localStorage.setItem("theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark"); } catch { /* it holds for this page */ }
    apply();
  });
}

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
