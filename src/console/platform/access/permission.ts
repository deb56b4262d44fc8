export const PERMISSIONS = ['keys:read', 'keys:write', 'audit:read', 'tokens:write'] as const
export type Permission = (typeof PERMISSIONS)[number]

/** `keys:write` includes `keys:read`. */
export function includesPermission(granted: readonly Permission[], wanted: Permission): boolean {
  return granted.includes(wanted) || (wanted === 'keys:read' && granted.includes('keys:write'))
}
