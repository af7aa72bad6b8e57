// Talks to the server. Every address is relative to the page's, which holds the token.

export async function request(path, body) {
  const options = body && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Error("selfsort explore does not answer; is it still running? Nothing has changed.");
  }
  const content = await response.json().catch(() => ({ error: `The server refused this (${response.status}); its terminal says why.` }));
  if (!response.ok) throw Object.assign(new Error(content.error), { state: content.state });
  return content;
}

export const page = (view, order, offset, limit) =>
  request(`api/images?${new URLSearchParams({ view, order, offset, limit })}`);

// The same for a list of image numbers, in their order.
export async function listPage(images, offset, limit) {
  const part = images.slice(offset, offset + limit);
  const found = part.length ? await request("api/items", { images: part }) : { items: [], pack: 1 };
  return { ...found, total: images.length, offset };
}

export const rows = (view) => request(`api/rows?${new URLSearchParams({ view })}`).then(({ images }) => images);

// All clusters, the likeliest for { images } or { cluster } first; none if that cannot be said.
export const likely = (about) => request("api/likely", about).then(({ clusters }) => clusters, () => []);
