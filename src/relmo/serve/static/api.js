// Requests to the server. The API key, if one is needed, is kept for this tab only.

export class ApiError extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

export async function ask(path, body) {
  const headers = { accept: "application/json" };
  const key = sessionStorage.getItem("relmo-key");
  if (key) headers.authorization = `Bearer ${key}`;
  if (body) headers["content-type"] = "application/json";
  const answer = await fetch(path, {
    method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body),
  });
  const found = await answer.json();
  // Refused for want of a key that was typed meanwhile: a late refusal must not ask for it again.
  // Looked at after the last wait, for a key may be typed while the body arrives.
  if (answer.status === 401 && key !== sessionStorage.getItem("relmo-key")) return ask(path, body);
  if (!answer.ok) throw new ApiError(answer.status, found.error?.message ?? "The server rejected the request.");
  return found;
}

export const useKey = (key) => sessionStorage.setItem("relmo-key", key);
