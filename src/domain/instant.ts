/** @returns the instant as JSON has it everywhere, `2027-02-18T23:59:59.000Z` (RFC 3339); null for none */
export function toInstant(ms: number): string
export function toInstant(ms: number | null): string | null
export function toInstant(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString()
}
