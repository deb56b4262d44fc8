import { isWorkspaceId } from '../../domain/key/key-record.ts'
import { hasVisible } from '../../domain/visible-text.ts'
import type { Person } from './person.ts'

/** OpenID Connect Core 1.0, section 2: at most 255 ASCII characters. */
const SUBJECT = /^[\x20-\x7e]{1,255}$/
const MAX_NAME_LENGTH = 100
/** Of a session: each request reads it, and each list of keys names them. */
export const MAX_WORKSPACES = 1000
const NAME_CLAIMS = ['name', 'preferred_username', 'email'] as const

export type Claims = Readonly<Record<string, unknown>>

export interface ClaimNames {
  readonly workspacesClaim: string
  readonly administratorClaim?: string | undefined
  readonly administratorValue: string
  readonly viewerClaim?: string | undefined
  readonly viewerValue: string
}

/** @returns null without a valid subject */
export function personOf(claims: Claims, names: ClaimNames): Person | null {
  const subject = claims['sub']
  if (typeof subject !== 'string' || !SUBJECT.test(subject)) return null
  const granted = new Set(valuesOf(claimAt(claims, names.workspacesClaim)).filter(isWorkspaceId))
  const { administratorClaim, administratorValue, viewerClaim, viewerValue } = names
  return {
    subject,
    name: nameOf(claims) ?? subject,
    workspaces: [...granted].sort().slice(0, MAX_WORKSPACES),
    ...(granted.size > MAX_WORKSPACES ? { workspacesGranted: granted.size } : {}),
    administrator: grants(claims, administratorClaim, administratorValue),
    role: grants(claims, viewerClaim, viewerValue) ? 'viewer' : 'manager',
  }
}

/** Whether the token has every claim that grants rights; otherwise the userinfo endpoint may have them. */
export function hasClaims(
  claims: Claims,
  { workspacesClaim, administratorClaim, viewerClaim }: ClaimNames,
): boolean {
  const names = [workspacesClaim, administratorClaim, viewerClaim]
  return names.every(name => name === undefined || claimAt(claims, name) !== undefined)
}

function grants(claims: Claims, claim: string | undefined, value: string): boolean {
  return claim !== undefined && valuesOf(claimAt(claims, claim)).includes(value)
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

/** Members of a list, a whole text, or a boolean. A text is never split: `not keys-admin` must not grant `keys-admin`. */
function valuesOf(claim: unknown): string[] {
  if (Array.isArray(claim)) return claim.filter(item => typeof item === 'string')
  if (typeof claim === 'string') return [claim]
  return typeof claim === 'boolean' ? [String(claim)] : []
}

/** One line, without control characters that could hide or reverse surrounding text. */
function nameOf(claims: Claims): string | null {
  const found = NAME_CLAIMS.map(name => claims[name]).find(
    text => typeof text === 'string' && hasVisible(text),
  )
  if (typeof found !== 'string') return null
  const plain = found.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '').trim()
  return [...plain].slice(0, MAX_NAME_LENGTH).join('') || null
}
