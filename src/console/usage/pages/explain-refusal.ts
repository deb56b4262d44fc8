import { DENIAL_REASONS, type DenialReason, denialRow } from '../../../domain/denial.ts'

/** Where clients get a text that says less on purpose, or that does not suit the owner of the key. */
const CLEARER: Partial<Readonly<Record<DenialReason, string>>> = {
  other_workspace: 'The path names another workspace than the one of the key',
  upstream_not_found: 'The upstream has no such resource',
  scope_missing: 'The key lacks the scope that the route requires',
  address_not_allowed: 'The client’s address is not among the allowed addresses of the key',
}

/** @returns null for a reason of a newer gateway */
export function explainRefusal(reason: string): string | null {
  const known = DENIAL_REASONS.find(name => name === reason)
  return known === undefined ? null : (CLEARER[known] ?? denialRow(known).text)
}
