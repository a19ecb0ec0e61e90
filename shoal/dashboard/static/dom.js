// Elements out of data. Text stays text: nothing from a run folder is ever parsed as HTML.

function make(node, props, children) {
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "value" || key === "checked" || key === "disabled") node[key] = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}

export const h = (tag, props, ...children) => make(document.createElement(tag), props, children);

export const svg = (tag, props, ...children) =>
  make(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);

export const replace = (node, ...children) => node.replaceChildren(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));

export async function get(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error((await answer.text()).trim() || `${answer.status}`);
  return answer.json();
}

export async function post(path) {
  const answer = await fetch(path, { method: "POST", headers: { "X-Shoal-Order": "1" } });
  if (!answer.ok) throw new Error((await answer.text()).trim() || `${answer.status}`);
  return answer.json();
}
