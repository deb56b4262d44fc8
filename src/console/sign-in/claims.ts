import { isJsonObject, parseJson } from '../../domain/form/json.ts'
import { hasVisible } from '../../domain/form/text.ts'
import { isWorkspaceId } from '../../domain/key/key-record.ts'
import type { Person, UnusedClaim, WorkspaceNames } from '../platform/access/principal.ts'

/** OpenID Connect Core 1.0, section 2: at most 255 ASCII characters. */
const SUBJECT = /^[\x20-\x7e]{1,255}$/
const MAX_NAME_LENGTH = 100
const MAX_WORKSPACE_NAME_LENGTH = 60
/** Of a session: each request reads it, and each list of keys names them. */
export const MAX_WORKSPACES = 1000
const NAME_CLAIMS = ['name', 'preferred_username', 'email'] as const

export type Claims = Readonly<Record<string, unknown>>

export interface ClaimNames {
  readonly workspacesClaim: string
  readonly workspaceNamesClaim?: string | undefined
  readonly administratorClaim?: string | undefined
  readonly administratorValue: string
  readonly viewerClaim?: string | undefined
  readonly viewerValue: string
}

/** @returns null without a valid subject */
export function readPerson(claims: Claims, settings: ClaimNames): Person | null {
  const subject = claims['sub']
  if (typeof subject !== 'string' || !SUBJECT.test(subject)) return null
  const { workspacesClaim, workspaceNamesClaim, viewerClaim, viewerValue } = settings
  const { administratorClaim, administratorValue } = settings
  const workspaces = readWorkspaces(claims, workspacesClaim)
  const administrator = readRole(claims, administratorClaim, administratorValue)
  const viewer = readRole(claims, viewerClaim, viewerValue)
  const own = [...workspaces.granted].sort().slice(0, MAX_WORKSPACES)
  const names = readWorkspaceNames(claims, workspaceNamesClaim, administrator.isGranted ? null : new Set(own))
  // An administrator needs neither of the other claims.
  const unusedClaims = administrator.isGranted
    ? []
    : [
        unused('workspacesClaim', workspacesClaim, workspaces.fault),
        unused('workspaceNamesClaim', workspaceNamesClaim, names.fault),
        unused('administratorClaim', administratorClaim, administrator.fault),
        unused('viewerClaim', viewerClaim, viewer.fault),
      ].filter(claim => claim !== null)
  return {
    subject,
    name: readName(claims) ?? subject,
    workspaces: own,
    ...(workspaces.granted.size > MAX_WORKSPACES ? { workspacesGranted: workspaces.granted.size } : {}),
    ...(Object.keys(names.read).length > 0 ? { workspaceNames: names.read } : {}),
    administrator: administrator.isGranted,
    // A claim that cannot be read might say viewer: the role with fewer rights is safe.
    role: viewer.isGranted || viewer.isUnknown ? 'viewer' : 'manager',
    ...(unusedClaims.length > 0 ? { unusedClaims } : {}),
  }
}

/** Whether the token has every claim that grants rights; otherwise the userinfo endpoint may have them. */
export function hasClaims(
  claims: Claims,
  { workspacesClaim, workspaceNamesClaim, administratorClaim, viewerClaim }: ClaimNames,
): boolean {
  const names = [workspacesClaim, workspaceNamesClaim, administratorClaim, viewerClaim]
  return names.every(name => name === undefined || hasClaim(claims, name))
}

function unused(
  setting: UnusedClaim['setting'],
  claim: string | undefined,
  fault: ClaimFault | null,
): UnusedClaim | null {
  return claim === undefined || fault === null ? null : { setting, claim, ...fault }
}

/** Other values of a list are skipped while some of it are workspaces: a claim of groups has others too. */
function readWorkspaces(claims: Claims, name: string) {
  const read = readClaim(claims, name)
  const texts = read.kind === 'boolean' ? [] : read.values
  const granted = new Set(texts.map(topLevelGroup).filter(isWorkspaceId))
  return { granted, fault: read.fault ?? (granted.size > 0 ? null : findWorkspacesFault(read)) }
}

function findWorkspacesFault({ values, kind }: ReadClaim): ClaimFault {
  if (kind === 'boolean') return { shape: 'a boolean', remedy: SEND_TEXTS }
  const [text] = values
  if (text === undefined) {
    const remedy = 'Send the ids of the person’s workspaces in this claim'
    return { shape: kind === 'list' ? 'an empty list' : 'missing or empty', remedy }
  }
  if (values.some(isPath)) {
    const remedy = 'Only a group at the top level, such as /ws_1, names a workspace'
    return { shape: 'a path of nested groups', remedy }
  }
  if (kind === 'list') return { shape: 'a list without a workspace id', remedy: 'Send the ids of workspaces' }
  return { shape: describeText(text), remedy: 'Send a list, or the id of one workspace alone' }
}

/** Invalid entries are skipped. @param known the only ids whose names are kept; null: all */
function readWorkspaceNames(
  claims: Claims,
  name: string | undefined,
  known: ReadonlySet<string> | null,
): { readonly read: WorkspaceNames; readonly fault: ClaimFault | null } {
  const claim = name === undefined ? null : (claimAt(claims, name) ?? null)
  if (claim === null) return { read: {}, fault: null }
  const object = typeof claim === 'string' ? parseJson(claim) : claim
  if (!isJsonObject(object)) {
    const shape = typeof claim === 'string' ? 'a text that is no JSON object' : describeKind(claim)
    return { read: {}, fault: { shape, remedy: 'Send an object whose members are workspace ids with names' } }
  }
  const entries = Object.entries(object).flatMap(([id, text]) => {
    const shown = typeof text === 'string' ? oneLine(text, MAX_WORKSPACE_NAME_LENGTH) : null
    const isKept = isWorkspaceId(id) && known?.has(id) !== false
    return isKept && shown !== null && shown !== id ? [[id, shown] as const] : []
  })
  return { read: Object.fromEntries(entries.slice(0, MAX_WORKSPACES)), fault: null }
}

interface ReadRole {
  readonly isGranted: boolean
  /** Whether the claim has something that cannot be read. */
  readonly isUnknown: boolean
  readonly fault: ClaimFault | null
}

/** An exact text, or an exact member of a list. A text is never split: `not keys-admin` must not grant `keys-admin`. */
function readRole(claims: Claims, name: string | undefined, wanted: string): ReadRole {
  if (name === undefined) return { isGranted: false, isUnknown: false, fault: null }
  const { values, kind, fault } = readClaim(claims, name)
  const isGranted = values.some(value => value === wanted || topLevelGroup(value) === wanted)
  if (isGranted) return { isGranted, isUnknown: false, fault: null }
  if (fault !== null) return { isGranted, isUnknown: true, fault }
  if (values.some(value => isPath(value) && value.endsWith(`/${wanted}`))) {
    const remedy = 'Set the whole path as the value to look for'
    return { isGranted, isUnknown: true, fault: { shape: 'a path of nested groups', remedy } }
  }
  const [text = ''] = values
  const isJoined = kind === 'text' && text.split(/[\s,]/).includes(wanted)
  const joined = { shape: describeText(text), remedy: 'Send a list: a text is one value, never several' }
  return { isGranted, isUnknown: false, fault: isJoined ? joined : null }
}

/** Keycloak writes a group as the path from the top: `/ws_1`. A nested group of the same name is another group. */
function topLevelGroup(value: string): string {
  return value.startsWith('/') && !isPath(value) ? value.slice(1) : value
}

function isPath(value: string): boolean {
  return value.startsWith('/') && value.includes('/', 1)
}

function describeText(text: string): string {
  if (text.includes(',')) return 'a text with commas'
  return /\s/.test(text) ? 'a text with blanks' : 'a text that is no workspace id'
}

function readName(claims: Claims): string | null {
  const found = NAME_CLAIMS.map(name => claims[name]).find(
    text => typeof text === 'string' && hasVisible(text),
  )
  return typeof found === 'string' ? oneLine(found, MAX_NAME_LENGTH) : null
}

/** Without control characters that could hide or reverse surrounding text; null if nothing visible is left. */
function oneLine(text: string, maxLength: number): string | null {
  const plain = text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '').trim()
  const line = [...plain].slice(0, maxLength).join('')
  return hasVisible(line) ? line : null
}

/** What a claim holds, in the shapes that identity providers send. */
interface ReadClaim {
  /** A text that is no list counts as one value: it is never split. */
  readonly values: readonly string[]
  readonly kind: 'nothing' | 'text' | 'boolean' | 'list'
  /** What the claim is where it grants nothing by its shape alone; null if all of it was read. */
  readonly fault: ClaimFault | null
}

/** Why a claim, or a part of it, is not used. It never holds a value of the claim. */
interface ClaimFault {
  /** Completes `The claim groups is …`. */
  readonly shape: string
  /** What to change at the provider or in the settings. */
  readonly remedy: string
}

const SEND_TEXTS = 'Send a text or a list of texts'
const ELSEWHERE: ClaimFault = {
  shape: 'sent as a reference (an overage, with _claim_names or hasgroups in its place), not as a value',
  remedy: 'Let the provider send only the groups that are assigned to the console, or application roles',
}
const LIKE_A_LIST: ClaimFault = {
  shape: 'a text that begins like a JSON list but is not valid JSON',
  remedy: 'Send a list, or its JSON text',
}

/** @param name dots belong to the name, as in an address, or select a claim within another */
function readClaim(claims: Claims, name: string): ReadClaim {
  const claim = claimAt(claims, name) ?? null
  if (claim === null) return { ...NOTHING, fault: isElsewhere(claims, name) ? ELSEWHERE : null }
  if (typeof claim !== 'string') return Array.isArray(claim) ? readList(claim) : readSingle(claim)
  if (claim === '') return NOTHING
  const text: ReadClaim = { values: [claim], kind: 'text', fault: null }
  if (!claim.trimStart().startsWith('[')) return text
  const list = parseList(claim)
  return list === null ? { ...text, fault: LIKE_A_LIST } : readList(list)
}

const NOTHING: ReadClaim = { values: [], kind: 'nothing', fault: null }

function readSingle(claim: unknown): ReadClaim {
  if (typeof claim === 'boolean') return { values: [String(claim)], kind: 'boolean', fault: null }
  return { ...NOTHING, fault: { shape: describeKind(claim), remedy: SEND_TEXTS } }
}

/** A number is not read as text: JSON drops leading zeros and digits beyond 2^53, which could name another workspace. */
function readList(list: readonly unknown[]): ReadClaim {
  const values = list.filter(item => typeof item === 'string').filter(item => item !== '')
  const other = list.find(item => typeof item !== 'string')
  const fault =
    other === undefined ? null : { shape: `a list that contains ${describeKind(other)}`, remedy: SEND_TEXTS }
  return { values, kind: 'list', fault }
}

function describeKind(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'a list'
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`
}

function parseList(text: string): readonly unknown[] | null {
  const parsed = parseJson(text)
  return Array.isArray(parsed) ? parsed : null
}

/** OpenID Connect Core 1.0, section 5.6.2; Entra also sends `hasgroups` alone. */
function isElsewhere(claims: Claims, name: string): boolean {
  const references = claims['_claim_names']
  if (typeof references === 'object' && references !== null && Object.hasOwn(references, name)) return true
  return name === 'groups' && (claims['hasgroups'] === true || claims['hasgroups'] === 'true')
}

/** The claim of this name; dots belong to the name or separate nested claims. */
function claimAt(claims: unknown, path: string): unknown {
  if (typeof claims !== 'object' || claims === null || Array.isArray(claims)) return undefined
  const own = new Map<string, unknown>(Object.entries(claims))
  if (own.has(path)) return own.get(path)
  for (let dot = path.indexOf('.'); dot > 0; dot = path.indexOf('.', dot + 1)) {
    const within = claimAt(own.get(path.slice(0, dot)), path.slice(dot + 1))
    if (within !== undefined) return within
  }
  return undefined
}

/** Whether the claim is there, with any value but null. */
function hasClaim(claims: Claims, name: string): boolean {
  return (claimAt(claims, name) ?? null) !== null
}
