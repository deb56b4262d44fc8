import { type Denial, type DenialReason, denialRow } from '../domain/denial.ts'

/** What a denial looks like from outside. */
export interface Refusal {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** Refusals without details of a single request are built once. */
const FIXED = new Map<DenialReason, Refusal>()

export function refusalOf(denial: Denial): Refusal {
  const { reason, detail, scope, retryAfterSeconds } = denial
  if (detail !== undefined || scope !== undefined || retryAfterSeconds !== undefined) return build(denial)
  let refusal = FIXED.get(reason)
  if (refusal === undefined) {
    refusal = build(denial)
    FIXED.set(reason, refusal)
  }
  return refusal
}

function build({ reason, detail, scope, retryAfterSeconds }: Denial): Refusal {
  const row = denialRow(reason)
  const wait = retryAfterSeconds ?? row.retryAfterSeconds
  const scopeParameter = scope === undefined ? '' : `, scope="${scope}"`
  const body = JSON.stringify({ code: row.code, error: detail ?? row.text })
  return {
    status: row.status,
    headers: {
      'content-type': 'application/json; charset=utf-8',
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      ...row.headers,
      ...(row.challenge === undefined
        ? {}
        : { 'www-authenticate': `Bearer realm="postern"${row.challenge}${scopeParameter}` }),
      ...(wait === undefined ? {} : { 'retry-after': String(wait) }),
    },
    body,
  }
}
