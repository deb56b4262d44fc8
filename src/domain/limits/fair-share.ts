/**
 * How much of a shared resource one workspace may hold while others need it: a quarter, but at least one. While no other
 * workspace needs it, one workspace may hold all of it.
 */
export function fairShareOf(total: number): number {
  return Math.max(1, Math.floor(total / 4))
}
