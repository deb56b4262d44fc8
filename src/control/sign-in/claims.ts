import { isWorkspaceId } from '../../domain/key/key-record.ts'
import type { Person } from './person.ts'

/** OpenID Connect Core 1.0, section 2: at most 255 ASCII characters. */
const SUBJECT = /^[\x20-\x7e]{1,255}$/
const MAX_NAME_LENGTH = 100
const MAX_WORKSPACES = 1000
const NAME_CLAIMS = ['name', 'preferred_username', 'email'] as const

export type Claims = Readonly<Record<string, unknown>>

export interface ClaimNames {
  readonly workspacesClaim: string
  readonly administratorClaim?: string | undefined
  readonly administratorValue: string
}

/** @returns null without a valid subject */
export function personOf(claims: Claims, names: ClaimNames): Person | null {
  const subject = claims['sub']
  if (typeof subject !== 'string' || !SUBJECT.test(subject)) return null
  const workspaces = textsOf(claimAt(claims, names.workspacesClaim)).filter(isWorkspaceId)
  const { administratorClaim: claim } = names
  return {
    subject,
    name: nameOf(claims) ?? subject,
    workspaces: [...new Set(workspaces)].sort().slice(0, MAX_WORKSPACES),
    administrator: claim !== undefined && textsOf(claimAt(claims, claim)).includes(names.administratorValue),
  }
}

/** Whether the token has every claim that grants rights; otherwise the userinfo endpoint may have them. */
export function hasClaims(claims: Claims, { workspacesClaim, administratorClaim }: ClaimNames): boolean {
  const names = administratorClaim === undefined ? [workspacesClaim] : [workspacesClaim, administratorClaim]
  return names.every(name => claimAt(claims, name) !== undefined)
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

/** A list, a space-separated text, or a boolean. */
function textsOf(claim: unknown): string[] {
  if (Array.isArray(claim)) return claim.filter(item => typeof item === 'string')
  if (typeof claim === 'string') return claim.split(' ').filter(text => text !== '')
  return typeof claim === 'boolean' ? [String(claim)] : []
}

/** One line, without control characters that could hide or reverse surrounding text. */
function nameOf(claims: Claims): string | null {
  const found = NAME_CLAIMS.map(name => claims[name]).find(
    text => typeof text === 'string' && text.trim() !== '',
  )
  if (typeof found !== 'string') return null
  const plain = found.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '').trim()
  return [...plain].slice(0, MAX_NAME_LENGTH).join('') || null
}
