// Learning from the changes: starts it, shows how far it is, and what would move. The server does it in the background.
import { request } from "./api.js";
import { strip } from "./pictures.js";

const SHOWN = 9;
const words = (count) => `${count.toLocaleString("en")} image${count === 1 ? "" : "s"}`;
const pause = () => new Promise((resolve) => setTimeout(resolve, 300));
export const act = (action) => request("api/learn", { action });

// Learns until it is done or stopped. Answers what it has found; null if it was stopped.
export async function learn(tell) {
  await act("start");
  const stop = byId("stop-learning");
  let isStopped = false;
  stop.hidden = false;
  stop.onclick = () => { isStopped = true; act("stop").catch(() => {}); };
  try {
    for (;;) {
      const found = await request("api/learning");
      if (!found.running) {
        if (isStopped) return null;
        if (found.error) throw new Error(found.error);
        return found;
      }
      tell(isStopped ? "stopping…" : `${found.progress || "learning"}…`);
      await pause();
    }
  } finally {
    stop.hidden = true;
  }
}

// Shows what would move, side by side with where it would go. Resolves to accept, reject or null (later).
export function compare(found, { state, title }) {
  const dialog = byId("changes"), total = found.changes.reduce((sum, { images }) => sum + images.length, 0);
  const examples = (name) => state.clusters.find(({ id }) => title(id).toLowerCase() === name.toLowerCase())?.examples ?? [];
  byId("changes-text").textContent = total
    ? `${words(total)} would go elsewhere. Nothing has changed yet.`
    : "No image would go elsewhere. The model has learned your changes, and predict would use them.";
  byId("changes-list").replaceChildren(...found.changes.map(({ old, new: next, images }) => {
    const box = create("section"), pair = create("div", { className: "pair" });
    pair.append(strip(`typical of ${old}`, examples(old), found.pack), strip(words(images.length), images.slice(0, SHOWN), found.pack), strip(`typical of ${next}`, examples(next), found.pack));
    box.append(create("h3", { textContent: `${words(images.length)}: ${old} → ${next}` }), pair);
    return box;
  }));
  return new Promise((resolve) => {
    let answer = null;
    for (const choice of ["accept", "reject"]) byId(`changes-${choice}`).onclick = () => { answer = choice; dialog.close(); };
    byId("changes-later").onclick = () => dialog.close();
    dialog.onclose = () => resolve(answer);
    dialog.showModal();
  });
}
