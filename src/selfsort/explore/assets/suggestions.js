// Clusters that should perhaps be merged or split, each with its reason, pictures and a button.
import { request } from "./api.js";
import { strip } from "./pictures.js";

// Shows them in the dialog. Resolves to the edit that was chosen, or null.
export async function suggest(state, title) {
  const { merges, splits } = await request("api/suggestions");
  const dialog = byId("suggestions"), examples = (id) => state.clusters.find((cluster) => cluster.id === id)?.examples ?? [];
  return new Promise((resolve) => {
    let answer = null;
    const choose = (edit) => { answer = edit; dialog.close(); };
    const card = (heading, why, strips, label, edit) => {
      const box = create("section"), pair = create("div", { className: "pair" });
      const button = create("button", { type: "button", textContent: label, onclick: () => choose(edit) });
      pair.append(...strips);
      box.append(create("h3", { textContent: heading }), create("p", { className: "facts", textContent: why }), pair, button);
      return box;
    };
    const cards = [
      ...merges.map(({ cluster, into, why, is_step }) => card(
        `${is_step ? "Coarser: " : ""}${title(cluster)} and ${title(into)} look alike`, why,
        [cluster, into].map((id) => strip(title(id), examples(id), state.pack)),
        `Merge ${title(cluster)} into ${title(into)}`, { op: "merge", cluster, into },
      )),
      ...splits.map(({ cluster, parts, why, is_step }) => card(
        `${is_step ? "Finer: " : ""}${title(cluster)} ${is_step ? "in two" : "holds two kinds"}`, why,
        parts.map((rows, place) => strip(place ? "the other" : "the one", rows, state.pack)),
        `Split ${title(cluster)}`, { op: "split", cluster, parts: "suggested" },
      )),
    ];
    const none = create("p", { textContent: "No two clusters mix much, and none falls into two. Nothing to suggest." });
    byId("suggestions-list").replaceChildren(...(cards.length ? cards : [none]));
    byId("suggestions-close").onclick = () => dialog.close();
    dialog.onclose = () => resolve(answer);
    dialog.showModal();
  });
}
