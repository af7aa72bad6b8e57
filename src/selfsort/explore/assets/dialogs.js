// One dialog for every question, and one that shows an image large.

// Asks for the values of some fields. Returns them by name, or null. `check` returns what is wrong with them, if anything.
export function ask({ title, text = "", ok, fields, check = () => "" }) {
  const dialog = byId("dialog"), form = dialog.querySelector("form"), place = byId("dialog-fields");
  byId("dialog-title").textContent = title;
  byId("dialog-text").textContent = text;
  byId("dialog-ok").textContent = ok;
  byId("dialog-error").textContent = "";
  place.replaceChildren(...fields.flatMap(field));
  return new Promise((resolve) => {
    let answer = null;
    form.onsubmit = (event) => {
      const values = Object.fromEntries(new FormData(form));
      byId("dialog-error").textContent = check(values);
      if (byId("dialog-error").textContent) event.preventDefault();
      else answer = values;
    };
    byId("dialog-cancel").onclick = () => dialog.close();
    dialog.onclose = () => resolve(answer);
    dialog.showModal();
    place.querySelector("input, select")?.focus();
    place.querySelector("input")?.select?.();
  });
}

function field({ name, label, type, options = [], ...rest }) {
  if (type === "choice") {
    return options.map(([value, title, explanation], number) => {
      const input = create("input", { type: "radio", name, value, checked: number === 0 });
      const box = create("label");
      box.className = "choice";
      box.append(input, title, create("small", { textContent: explanation }));
      return box;
    });
  }
  const input = create(type === "select" ? "select" : "input");
  if (type !== "select") input.type = type;
  input.append(...options.map(([value, title]) => new Option(title, value)));
  Object.assign(input, { name, autocomplete: "off", ...rest });
  const box = create("label");
  box.append(label, input);
  return [box];
}

export function enlarge(item, facts) {
  const image = byId("viewer-image");
  image.onload = () => image.classList.toggle("pixels", image.naturalWidth <= 64);
  image.src = `api/image/${item.i}`;
  image.alt = item.name;
  byId("viewer-name").textContent = item.name;
  byId("viewer-facts").textContent = facts;
  byId("viewer").showModal();
}
