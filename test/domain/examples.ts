import { DEFAULT_ROUTES } from '../../src/config/schema/route-schema.ts'
import { BLANK_FIELDS } from '../../src/domain/key/key-fields.ts'
import type { KeyGrant, KeyRecord } from '../../src/domain/key/key-record.ts'
import { importSigningSecret } from '../../src/domain/key/secret.ts'
import { compileRoutes, type Route, type RouteMatch } from '../../src/domain/route/route.ts'
import { toGrant as grantOf } from '../support/key-records.ts'

export { grantOf }

export const NOW_MS = Date.UTC(2026, 10, 20, 9)
export const DAY_MS = 86_400_000

export const SIGNING_KEY = importSigningSecret(Buffer.alloc(32, 1))
export const OTHER_SIGNING_KEY = importSigningSecret(Buffer.alloc(32, 2))

/** The default routes. */
export const ROUTES: readonly Route[] = compileRoutes(
  Object.entries(DEFAULT_ROUTES).map(([name, route]) => ({ name, ...route })),
)

export function routeNamed(name: string): Route {
  const route = ROUTES.find(candidate => candidate.name === name)
  if (route === undefined) throw new Error(`No route ${name}`)
  return route
}

export function matchOf(name: string, parameters: Record<string, string> = {}): RouteMatch {
  return { route: routeNamed(name), parameters: new Map(Object.entries(parameters)) }
}

export function exampleRecord(changes: Partial<KeyRecord> = {}): KeyRecord {
  return {
    ...BLANK_FIELDS,
    id: 'key_01JD3X5Y6Z7A8B9C0D1E2F3G4H',
    workspaceId: 'ws_A',
    name: 'nightly export',
    scopes: ['files:read', 'workspace:read'],
    hint: 'wsk_…x7Qf',
    createdAtMs: NOW_MS - DAY_MS,
    createdBy: 'ada@example.com',
    expiresAtMs: NOW_MS + 90 * DAY_MS,
    revokedAtMs: null,
    suspendedAtMs: null,
    rotatedFrom: null,
    replacedBy: null,
    version: 1,
    ...changes,
  }
}

/** A grant of a key that was issued, with all that a gateway stores. */
export function exampleGrant(changes: Partial<KeyGrant> = {}): KeyGrant {
  return grantOf(exampleRecord(changes))
}
