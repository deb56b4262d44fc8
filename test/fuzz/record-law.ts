import { readFileSync } from 'node:fs'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { parse } from 'yaml'
import type { KeyRecord } from '../../src/domain/key/key-record.ts'
import { finalAnswer } from './answer-law.ts'
import type { RecordPlan } from './record-plans.ts'

/** The result of a key for a client: the response of `GET /api/v1/auth`, or the code of a denial. */
export type Verdict =
  | { readonly kind: 'granted'; readonly grant: Record<string, unknown> }
  | { readonly kind: 'refused'; readonly code: string }

/** The published schema, so that the reader is checked against the contract rather than against itself. */
const contract = parse(
  readFileSync(new URL('../../config/key-service-openapi.yaml', import.meta.url), 'utf8'),
) as {
  components: { schemas: object }
}
const ajv = new Ajv2020({ strict: false, validateFormats: false })
ajv.addSchema({ $id: 'key_service', components: contract.components })
const isRecord = ajv.compile({ $ref: 'key_service#/components/schemas/Record' })

const NO_ANSWER: Verdict = { kind: 'refused', code: 'key_store_unavailable' }

/**
 * Never a wrong grant and never a wrong denial: the result for a key comes from a source that may be trusted.
 * @returns the violation, or null
 */
export function breachOfRecords(plan: RecordPlan, verdict: Verdict, nowMs: number): string | null {
  const sayings = plan.keyServiceHonest ? honestSayings(plan, nowMs) : keyServiceSayings(plan, nowMs)
  const result = JSON.stringify(verdict)
  return sayings.some(saying => JSON.stringify(saying) === result)
    ? null
    : `result ${result}, expected one of ${JSON.stringify(sayings)}`
}

/** Trusted sources: a record in Redis with a valid MAC, and the response of the key service. */
function honestSayings(plan: RecordPlan, nowMs: number): Verdict[] {
  const { revokedAtMs, suspendedAtMs } = plan.truth
  const truth = verdictOn(
    grantOf(plan.truth),
    { revoked: revokedAtMs !== null, suspended: suspendedAtMs !== null },
    nowMs,
  )
  const keyService = keyServiceSaying(plan, nowMs)
  // A mutation in Redis may have left the relevant fields unchanged.
  return [truth, keyService]
}

/** A bare carriage return may be read as a space or make the response invalid (RFC 9112, section 2.2). */
function keyServiceSayings(plan: RecordPlan, nowMs: number): Verdict[] {
  const saying = keyServiceSaying(plan, nowMs)
  return /\r(?!\n)/.test(plan.keyService.bytes) ? [saying, NO_ANSWER] : [saying]
}

function keyServiceSaying({ keyService }: RecordPlan, nowMs: number): Verdict {
  const read = finalAnswer(Buffer.from(keyService.bytes, 'latin1'))
  const whole = read.kind === 'whole' || (read.kind === 'until_close' && keyService.after === 'end')
  if (!whole || read.body.length > 16 * 1024) return NO_ANSWER
  const json = jsonOf(read.body.toString('utf8'))
  if (read.head.status === 404 && json?.['code'] === 'not_found')
    return { kind: 'refused', code: 'key_invalid' }
  if (read.head.status !== 200 || json === null || !isRecord(json)) return NO_ANSWER
  const { id, workspaceId, scopes, hint = '', expiresAt } = json
  const { revokedAt = null, suspendedAt = null, plan = null } = json
  if (![expiresAt, revokedAt, suspendedAt].every(at => at === null || isDay(at))) return NO_ANSWER
  const grant = {
    workspaceId,
    scopes: [...new Set(scopes as string[])].sort(),
    keyId: id,
    hint,
    expiresAt: new Date(String(expiresAt)).toISOString(),
    plan,
  }
  return verdictOn(grant, { revoked: revokedAt !== null, suspended: suspendedAt !== null }, nowMs)
}

function grantOf(record: KeyRecord): Record<string, unknown> {
  return {
    workspaceId: record.workspaceId,
    scopes: record.scopes,
    keyId: record.id,
    hint: record.hint,
    expiresAt: new Date(record.expiresAtMs).toISOString(),
    plan: record.plan,
  }
}

function verdictOn(
  grant: Record<string, unknown>,
  { revoked, suspended }: { revoked: boolean; suspended: boolean },
  nowMs: number,
): Verdict {
  if (revoked) return { kind: 'refused', code: 'key_revoked' }
  if (Date.parse(String(grant['expiresAt'])) <= nowMs) return { kind: 'refused', code: 'key_expired' }
  if (suspended) return { kind: 'refused', code: 'key_suspended' }
  return { kind: 'granted', grant }
}

/** Whether date and time exist. */
function isDay(text: unknown): boolean {
  const ms = Date.parse(String(text))
  return !Number.isNaN(ms) && new Date(ms).toISOString().slice(0, 19) === String(text).slice(0, 19)
}

function jsonOf(text: string): Record<string, unknown> | null {
  try {
    const json: unknown = JSON.parse(text)
    return typeof json === 'object' && json !== null && !Array.isArray(json)
      ? (json as Record<string, unknown>)
      : null
  } catch {
    return null
  }
}
