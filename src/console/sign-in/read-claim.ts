export type Claims = Readonly<Record<string, unknown>>

/** What a claim holds, in the shapes that identity providers send. */
export interface ReadClaim {
  /** A text that is no list counts as one value: it is never split. */
  readonly values: readonly string[]
  readonly kind: 'nothing' | 'text' | 'boolean' | 'list'
  /** What the claim is where it grants nothing by its shape alone; null if all of it was read. */
  readonly fault: ClaimFault | null
}

/** Why a claim, or a part of it, is not used. It never holds a value of the claim. */
export interface ClaimFault {
  /** Completes `The claim groups is …`. */
  readonly shape: string
  /** What to change at the provider or in the settings. */
  readonly remedy: string
}

export const SEND_TEXTS = 'Send a text or a list of texts'
const ELSEWHERE: ClaimFault = {
  shape: 'sent as a reference (an overage, with _claim_names or hasgroups in its place), not as a value',
  remedy: 'Let the provider send only the groups that are assigned to the console, or application roles',
}
const LIKE_A_LIST: ClaimFault = {
  shape: 'a text that begins like a JSON list but is not valid JSON',
  remedy: 'Send a list, or its JSON text',
}

/** @param name dots belong to the name, as in an address, or select a claim within another */
export function readClaim(claims: Claims, name: string): ReadClaim {
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
  return { ...NOTHING, fault: { shape: kindOf(claim), remedy: SEND_TEXTS } }
}

/** A number is not read as text: JSON drops leading zeros and digits beyond 2^53, which could name another workspace. */
function readList(list: readonly unknown[]): ReadClaim {
  const values = list.filter(item => typeof item === 'string').filter(item => item !== '')
  const other = list.find(item => typeof item !== 'string')
  const fault =
    other === undefined ? null : { shape: `a list that contains ${kindOf(other)}`, remedy: SEND_TEXTS }
  return { values, kind: 'list', fault }
}

function kindOf(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'a list'
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`
}

function parseList(text: string): readonly unknown[] | null {
  try {
    const parsed: unknown = JSON.parse(text)
    return Array.isArray(parsed) ? parsed : null
  } catch {
    return null
  }
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
export function hasClaim(claims: Claims, name: string): boolean {
  return (claimAt(claims, name) ?? null) !== null
}
