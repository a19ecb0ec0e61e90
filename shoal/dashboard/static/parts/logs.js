// The logs of all processes, with search.
import { get, h, replace } from "../dom.js";
import { bytes } from "../format.js";

export function logs(home) {
  const choose = h("select", { "aria-label": "Log", onchange: () => load() }), search = h("input", { type: "search", class: "grow", placeholder: "Search in this log", "aria-label": "Search in this log" });
  const text = h("div", { class: "log", tabindex: 0, role: "log", "aria-label": "Log" }), note = h("span", { class: "faint small" });
  const root = h("div", null, h("div", { class: "bar" }, choose, search, note), text);
  let typing = 0, timer = 0;
  search.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(load, 200); });

  async function names() {
    const found = await get(`${home}/logs`).catch(() => []);
    if (found.length === choose.children.length) return;
    const now = choose.value;
    replace(choose, found.map((name) => h("option", { value: name }, name)));
    if (found.includes(now)) choose.value = now; else choose.value = found.find((name) => /^(local|inline|ray)\.log$/.test(name)) ?? found[0] ?? "";
  }

  async function load() {
    if (!choose.value) { replace(text, h("span", { class: "faint" }, "This run has no logs.")); return; }
    const word = search.value.trim();
    let found;
    try { found = await get(`${home}/logs/${encodeURIComponent(choose.value)}?search=${encodeURIComponent(word)}`); } catch (problem) { note.textContent = problem.message; return; }
    const end = text.scrollTop + text.clientHeight >= text.scrollHeight - 20;
    note.textContent = `${bytes(found.size)}${found.cut ? ", its end is shown" : ""}${word ? `, ${found.lines.length} lines` : ""}`;
    replace(text, found.lines.length ? found.lines.map((line) => h("div", { class: /ERROR|CRITICAL|Error:|Traceback/.test(line) ? "error-line" : "" }, marked(line, word))) : h("span", { class: "faint" }, word ? "No line holds that." : "It is empty."));
    if (end) text.scrollTop = text.scrollHeight;
  }

  root.open = async () => { await names(); await load(); clearInterval(timer); timer = setInterval(async () => { if (!document.hidden) { await names(); await load(); } }, 3000); };
  root.close = () => clearInterval(timer);
  return root;
}

function marked(line, word) {
  const at = word ? line.toLowerCase().indexOf(word.toLowerCase()) : -1;
  return at < 0 ? line || "\u00a0" : [line.slice(0, at), h("mark", null, line.slice(at, at + word.length)), line.slice(at + word.length)];
}
