// Calls of the HTTP API: same origin, with the bearer token of this tab.

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

const TOKEN = "headrace.token";

export function token(): string {
  return sessionStorage.getItem(TOKEN) ?? "";
}

export function setToken(text: string): void {
  if (text) sessionStorage.setItem(TOKEN, text);
  else sessionStorage.removeItem(TOKEN);
}

export function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Takes a token, or a code that gives one once, from the fragment of the address, which browsers do not send, and removes it there. */
export async function tokenFromAddress(): Promise<void> {
  const found = /^#(token|code)=([\w.-]+)$/.exec(location.hash);
  if (!found?.[2]) return;
  history.replaceState(null, "", location.pathname + "#/");
  setToken(found[1] === "token" ? found[2] : (await post<{ token: string }>("/v1/login:redeem", { code: found[2] })).token);
}

type Query = Record<string, string | number | string[] | undefined>;

function address(path: string, query: Query): string {
  const parts = Object.entries(query).flatMap(([key, value]) => (Array.isArray(value) ? value : [value]).map((one) => [key, one] as const));
  const text = new URLSearchParams(parts.filter(([, value]) => value !== undefined && value !== "").map(([key, value]) => [key, String(value)])).toString();
  return text ? `${path}?${text}` : path;
}

async function request(method: string, path: string, query: Query, body: unknown, signal?: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = token() ? { authorization: `Bearer ${token()}` } : {};
  if (body !== undefined) headers["content-type"] = "application/json";
  let answer: Response;
  try {
    answer = await fetch(address(path, query), {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
      credentials: "omit",
      cache: "no-store",
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "the API does not answer; trying again");
  }
  if (answer.ok) return answer;
  let message = `${answer.status} ${answer.statusText}`;
  try {
    message = ((await answer.json()) as { message?: string }).message ?? message;
  } catch {
    // an answer that is not JSON is described by its status
  }
  throw new ApiError(answer.status, message);
}

export async function get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return (await request("GET", path, query, undefined, signal)).json() as Promise<T>;
}

export async function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  return (await request("POST", path, {}, body, signal)).json() as Promise<T>;
}

/** The entries of one field of all pages, or of so many of them. */
export async function all<T>(path: string, query: Query, field: string, signal?: AbortSignal, pages = 1000): Promise<T[]> {
  const found: T[] = [];
  let page: string | undefined = "";
  for (let i = 0; i < pages && page !== undefined; i++) {
    const part: Record<string, unknown> = await get(path, { ...query, page_token: page }, signal);
    found.push(...((part[field] as T[] | undefined) ?? []));
    page = (part["next_page_token"] as string | undefined) || undefined;
  }
  return found;
}

/** The objects of a stream, one from each line. */
export async function* stream<T>(path: string, query: Query, signal: AbortSignal): AsyncGenerator<T> {
  const answer = await request("GET", path, query, undefined, signal);
  const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!reader) return;
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line.trim()) yield JSON.parse(line) as T;
  }
}
