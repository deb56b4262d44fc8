/** Paths of the pages; ids need no escaping in a path. */
export const WORKSPACES = '/workspaces'
export const FIND_KEY = '/find-key'
export const ALL_KEYS = '/keys'
export const ALL_USAGE = '/usage'
export const PEOPLE = '/people'
export const END_SESSIONS = `${PEOPLE}/end`

type Query = Readonly<Record<string, string | null | undefined>>

/** @param workspaceId null: keys of all workspaces */
export function keysPath(workspaceId: string | null, query: Query = {}): string {
  return withQuery(workspaceId === null ? ALL_KEYS : `${WORKSPACES}/${workspaceId}/keys`, query)
}

/** Filters of a list of keys, `unused` in its query: those that were not used for so long, or never. */
export const UNUSED_FILTERS = {
  never: { label: 'Never', days: null },
  '30d': { label: 'Not in 30 days', days: 30 },
  '90d': { label: 'Not in 90 days', days: 90 },
} as const
export type UnusedFilter = keyof typeof UNUSED_FILTERS
// `Object.keys` forgets the type of a closed record's keys.
export const UNUSED_NAMES = Object.keys(UNUSED_FILTERS) as readonly UnusedFilter[]

export function workspacesPath({ q, cursor }: { readonly q: string; readonly cursor?: string }): string {
  return withQuery(WORKSPACES, { q: q === '' ? null : q, cursor })
}

export function newKeyPath(workspaceId: string): string {
  return `${keysPath(workspaceId)}/new`
}

export type KeySubpage = 'rotate' | 'finish' | 'revoke' | 'edit' | 'suspend' | 'resume' | 'issued'

export function keyPath(workspaceId: string, keyId: string, act?: KeySubpage): string {
  return `${keysPath(workspaceId)}/${keyId}${act === undefined ? '' : `/${act}`}`
}

/** The key's page with its chart of this span. */
export function keyUsagePath(workspaceId: string, keyId: string, range: string): string {
  return `${withQuery(keyPath(workspaceId, keyId), { range })}#usage`
}

export function usagePath(workspaceId: string, range?: string): string {
  return withQuery(`${WORKSPACES}/${workspaceId}/usage`, { range })
}

export function refusalsPath(workspaceId: string): string {
  return `${WORKSPACES}/${workspaceId}/refusals`
}

export function revokeAllPath(workspaceId: string): string {
  return `${WORKSPACES}/${workspaceId}/revoke-all`
}

export function auditPath(workspaceId: string, cursor?: string): string {
  return withQuery(`${WORKSPACES}/${workspaceId}/audit`, { cursor })
}

export function deliveriesPath(workspaceId: string): string {
  return `${WORKSPACES}/${workspaceId}/deliveries`
}

/** The workspace's own webhook, with its deliveries. */
export function webhookPath(workspaceId: string): string {
  return `${WORKSPACES}/${workspaceId}/webhook`
}

/** @param path of a list of deliveries */
export function olderDeliveriesPath(path: string, cursor: string): string {
  return withQuery(path, { cursor })
}

export function apiPath(workspaceId: string): string {
  return `${WORKSPACES}/${workspaceId}/api`
}

export function openApiPath(workspaceId: string): string {
  return `${apiPath(workspaceId)}/openapi.json`
}

export function peoplePath(cursor?: string): string {
  return withQuery(PEOPLE, { cursor })
}

export function endSessionsPath(subject: string): string {
  return withQuery(END_SESSIONS, { subject })
}

function withQuery(path: string, query: Query): string {
  const present = Object.entries(query).filter(
    (entry): entry is [string, string] => typeof entry[1] === 'string',
  )
  return present.length === 0 ? path : `${path}?${new URLSearchParams(present)}`
}
