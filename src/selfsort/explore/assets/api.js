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
