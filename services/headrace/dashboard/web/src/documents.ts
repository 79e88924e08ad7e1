// Documents as the API shows them, and as they are written in files. Pure.

/** Fields that the API adds to a document. */
const ADDED = new Set(["name", "etag", "closed", "sequence", "warnings", "keys", "nodes"]);

export type Fields = Record<string, unknown>;

/** A policy as a file has it, from the policy as the API shows it, with other amounts of GPUs; an empty limit is no limit. */
export function changedPolicy(shown: Fields, reservation: string, limit: string): Fields {
  const [, tenant = "", , name = ""] = String(shown["name"]).split("/");
  const own = Object.fromEntries(Object.entries(shown).filter(([field]) => !ADDED.has(field)));
  const amounts = (field: string, gpu: string): Fields => {
    const { gpu: _, ...others } = (own[field] ?? {}) as Record<string, string>;
    return gpu.trim() ? { ...others, gpu: gpu.trim() } : others;
  };
  return { ...own, name, tenant, reservation: amounts("reservation", reservation), limit: amounts("limit", limit) };
}
