/**
 * How much of something that all workspaces share one of them may hold while others want it: a quarter, but at least one.
 * While no other workspace wants it, one may hold all.
 */
export function fairShareOf(total: number): number {
  return Math.max(1, Math.floor(total / 4))
}
