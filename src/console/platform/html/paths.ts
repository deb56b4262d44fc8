import { isId, isKeyId } from '../../../domain/id-form.ts'
import { isWorkspaceId } from '../../../domain/key/key-record.ts'
import type { FileFormat } from '../http/send-file.ts'

/** Paths of the pages; ids need no escaping in a path. */
export const WORKSPACES = '/workspaces'
export const FIND_KEY = '/find-key'
/** Where the provider sends the browser back to. */
export const SIGN_IN_CALLBACK = '/sign-in/callback'
export const ALL_KEYS = '/keys'
export const ALL_USAGE = '/usage'
export const ALL_LIMITS = '/limits'
export const PLANS = '/plans'
export const ALL_AUDIT = '/audit'
export const ALL_REFUSALS = '/refusals'
export const PEOPLE = '/people'
export const TOKENS = '/tokens'
export const NEW_TOKEN = `${TOKENS}/new`
/** Where going back to a token's secret leads. */
export const TOKEN_MADE = `${TOKENS}/made`
export const END_SESSIONS = `${PEOPLE}/end`

/** @param workspaceId whose navigation the page shows; null: none */
export function findKeyPath(workspaceId: string | null): string {
  return withQuery(FIND_KEY, { workspace: workspaceId })
}

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

export function workspacesPath({
  q,
  cursor,
}: {
  readonly q: string
  readonly cursor?: string | undefined
}): string {
  return withQuery(WORKSPACES, { q: q === '' ? null : q, cursor })
}

export function newKeyPath(workspaceId: string): string {
  return `${keysPath(workspaceId)}/new`
}

/** Where keys that were selected in a list are changed. @param query of the list */
export function selectedKeysPath(workspaceId: string | null, query: Query = {}): string {
  return withQuery(`${keysPath(workspaceId)}/selected`, query)
}

/** How far a change to several keys has come. @param lastKeyId the key that was changed last */
export function bulkProgressPath(workspaceId: string | null, lastKeyId: string): string {
  return withQuery(`${keysPath(workspaceId)}/progress`, { key: lastKeyId })
}

/** How far a change of the plan has come. @param lastKeyId as above */
export function planProgressPath(workspaceId: string, lastKeyId: string): string {
  return withQuery(`${planPath(workspaceId)}/progress`, { key: lastKeyId })
}

type KeySubpage = 'rotate' | 'finish' | 'revoke' | 'edit' | 'suspend' | 'resume' | 'issued' | 'progress'

export function keyPath(workspaceId: string, keyId: string, act?: KeySubpage): string {
  return `${keysPath(workspaceId)}/${keyId}${act === undefined ? '' : `/${act}`}`
}

/** A page with a chart, of this span. @param id of the part with the chart */
export function chartPath(page: string, range: string, id: string): string {
  return `${withQuery(page, { range })}#${id}`
}

export function usagePath(workspaceId: string): string {
  return `${WORKSPACES}/${workspaceId}/usage`
}

/** Limits that are nearly used up. @param workspaceId null: of all workspaces */
export function limitsPath(workspaceId: string | null, cursor?: string): string {
  return withQuery(workspaceId === null ? ALL_LIMITS : `${WORKSPACES}/${workspaceId}/limits`, { cursor })
}

/** @param workspaceId null: rejections of all workspaces */
export function refusalsPath(workspaceId: string | null, query: Query = {}): string {
  return withQuery(workspaceId === null ? ALL_REFUSALS : `${WORKSPACES}/${workspaceId}/refusals`, query)
}

/** What meets the conditions, as a file. @param path of the list */
export function filePath(path: string, format: FileFormat, query: Query): string {
  return withQuery(`${path}/entries.${format}`, query)
}

export function revokeAllPath(workspaceId: string): string {
  return `${WORKSPACES}/${workspaceId}/revoke-all`
}

/** Where the workspace gets a plan. */
export function planPath(workspaceId: string): string {
  return `${WORKSPACES}/${workspaceId}/plan`
}

/** @param workspaceId null: entries of all workspaces @param query conditions on entries, and where a page starts */
export function auditPath(workspaceId: string | null, query: Query = {}): string {
  return withQuery(workspaceId === null ? ALL_AUDIT : `${WORKSPACES}/${workspaceId}/audit`, query)
}

export function deliveriesPath(workspaceId: string): string {
  return `${WORKSPACES}/${workspaceId}/deliveries`
}

/** The workspace's own webhook, with its deliveries. */
export function webhookPath(workspaceId: string): string {
  return `${WORKSPACES}/${workspaceId}/webhook`
}

/** A list of deliveries that says what became of the button to send a test. */
export function testedPath(path: string, test: 'sent' | 'repeated'): string {
  return withQuery(path, { test })
}

/** @param path of a list of deliveries */
export function olderDeliveriesPath(path: string, cursor?: string): string {
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

export function tokensPath(cursor?: string): string {
  return withQuery(TOKENS, { cursor })
}

export function revokeTokenPath(tokenId: string): string {
  return `${TOKENS}/${tokenId}/revoke`
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

const MAX_LENGTH = 1024
/** Starts with one slash: two, or a slash and a backslash, would name another host. */
const LOCAL_PATH = /^\/(?![/\\])[\x21-\x5b\x5d-\x7e]*$/
/** Returning there would loop, or sign out again. */
const SIGN_IN_PATH = /^\/sign-(?:in|out)(?:[/?]|$)/
/**
 * Query parameters that links of pages have. All others are fields of forms, such as a search: people paste keys and addresses
 * with secrets into them, and a return path gets into the URL of the sign-in page, its cookie and the browser's history.
 */
const LINK_PARAMETERS = new Map<string, (text: string) => boolean>([
  ['state', isLinkValue],
  ['scope', isLinkValue],
  ['plan', isLinkValue],
  ['unused', isLinkValue],
  ['sort', isLinkValue],
  ['range', isLinkValue],
  ['code', isLinkValue],
  ['action', text => /^[a-z]{1,20}\.[a-z_]{1,20}$/.test(text)],
  ['keyId', isKeyId],
  ['actor', text => text === 'admin-token' || (text.startsWith('token:') && isId('tok', text.slice(6)))],
  ['from', isUtcTime],
  ['to', isUtcTime],
  ['cursor', isCursor],
])

function isLinkValue(text: string): boolean {
  return /^[\w:.-]{1,40}$/.test(text)
}

/** Where a page of a list starts: in a list of keys, else an id or a time, which are shorter than a key. */
function isCursor(text: string): boolean {
  return isKeyCursor(text) || /^[\w:.~-]{1,52}$/.test(text)
}

/** A place in a list of keys: JSON as base64url, which begins with the order in quotation marks. */
export function isKeyCursor(text: string): boolean {
  return /^Wy[IJ][\w-]{1,400}$/.test(text)
}

function isUtcTime(text: string): boolean {
  return /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d)?$/.test(text)
}

/** As long as the random part of a key, which was pasted in place of an id. */
const KEY_LIKE = /[0-9A-Za-z]{54}/
/** Query parameter of a form's page: the form was sent after its session had expired. */
export const EXPIRED = 'expired'

/**
 * Validates a local path from an untrusted URL, which rules out open redirects.
 * @returns null for anything a browser might resolve to another host
 */
export function localPath(text: unknown): string | null {
  if (typeof text !== 'string' || text.length > MAX_LENGTH || !LOCAL_PATH.test(text)) return null
  const { origin, pathname, search } = new URL(text, 'http://here.invalid')
  if (origin !== 'http://here.invalid' || pathname.startsWith('//') || SIGN_IN_PATH.test(pathname))
    return null
  return pathname + search
}

/** Where to return after signing in: a local path without the fields of forms, or the start page. */
export function returnPath(text: unknown): string {
  const path = localPath(text)
  if (path === null || KEY_LIKE.test(path.split('?', 1)[0] ?? '')) return '/'
  const { pathname, searchParams } = new URL(path, 'http://here.invalid')
  const kept = [...searchParams].filter(([name, value]) => {
    if (name === EXPIRED) return value === '1'
    // On other pages it is a field.
    if (name === 'workspace') return pathname === FIND_KEY && isWorkspaceId(value) && !KEY_LIKE.test(value)
    return LINK_PARAMETERS.get(name)?.(value) === true
  })
  return kept.length === 0 ? pathname : `${pathname}?${new URLSearchParams(kept)}`
}

/** The page of a form that was sent after its session had expired, without the fields of the form. */
export function formPage(url: string): string {
  const [path = '/'] = url.split('?', 1)
  return localPath(path) === null ? '/' : `${path}?${EXPIRED}=1`
}

/** @param then the local path to return to */
export function signInPath(then: string): string {
  return then === '/' ? '/sign-in' : `/sign-in?then=${encodeURIComponent(then)}`
}
