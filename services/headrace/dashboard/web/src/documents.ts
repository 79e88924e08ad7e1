// Documents as the API shows them, and as they are written in files. Pure.

/** Fields that the API adds to a document. */
const ADDED = new Set(["name", "etag", "closed", "sequence", "warnings", "keys", "nodes"]);

export type Fields = Record<string, unknown>;

/** A reservation and a limit of a policy, as people write them; an empty one is none. */
export interface Amounts { reservation: string; limit: string }

/** A policy as a file has it, from the policy as the API shows it, with other amounts of GPUs; `models`: of governed models, by key. */
export function changedPolicy(shown: Fields, reservation: string, limit: string, models: Record<string, Amounts> = {}): Fields {
  const [, tenant = "", , name = ""] = String(shown["name"]).split("/");
  const own = Object.fromEntries(Object.entries(shown).filter(([field]) => !ADDED.has(field)));
  const amounts = (field: keyof Amounts, gpu: string): Fields => {
    const written = Object.entries({ gpu, ...Object.fromEntries(Object.entries(models).map(([key, one]) => [key, one[field]])) });
    const others = Object.entries((own[field] ?? {}) as Record<string, string>).filter(([key]) => !written.some(([changed]) => changed === key));
    return Object.fromEntries([...others, ...written.map(([key, text]) => [key, text.trim()] as const).filter(([, text]) => text)]);
  };
  return { ...own, name, tenant, reservation: amounts("reservation", reservation), limit: amounts("limit", limit) };
}
