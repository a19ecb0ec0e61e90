// Which page this is. Each lives in a file of its own.
import { theme } from "./theme.js";

const PAGES = [
  [/^\/$/, () => import("./pages/runs.js")],
  [/^\/compare$/, () => import("./pages/compare.js")],
  [/^\/population\/([^/]+)$/, () => import("./pages/population.js")],
  [/^\/run\/([^/]+)\/([^/]+)$/, () => import("./pages/run.js")],
];

theme();
for (const [pattern, load] of PAGES) {
  const match = pattern.exec(location.pathname);
  if (match) {
    const page = await load();
    page.show(document.getElementById("main"), ...match.slice(1).map(decodeURIComponent));
    break;
  }
}
