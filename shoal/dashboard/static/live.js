// One stream per page. It comes back by itself when the server does, and says where it was.

export function live(path, kinds) {
  const light = document.getElementById("link");
  const say = (word, kind) => {
    light.className = `link ${kind}`;
    light.replaceChildren(Object.assign(document.createElement("span"), { textContent: word }));
  };
  let source = null, last = "", timer = 0, heard = false;
  const open = () => {
    clearTimeout(timer);
    source?.close();
    source = new EventSource(path);
    source.onopen = () => { say("live", "on"); heard = true; };
    source.onerror = () => {
      say("out of reach, trying again", "off");
      // A browser gives up on its own where the answer was a refusal; the next server may know us.
      if (source.readyState === EventSource.CLOSED) timer = setTimeout(open, 2000);
    };
    for (const [kind, take] of Object.entries(kinds)) {
      source.addEventListener(kind, (event) => { last = event.lastEventId; take(JSON.parse(event.data), heard); });
    }
  };
  say("connecting", "");
  open();
  addEventListener("pagehide", () => { clearTimeout(timer); source.close(); });
  addEventListener("pageshow", (event) => { if (event.persisted) open(); });
  return { place: () => last };
}
