import { percentDecoded } from '../../domain/form/text.ts'
import type { StoredKey } from '../../domain/key/key-record.ts'
import { digestKey, holdsSecretForm } from '../../domain/key/secret.ts'
import type { LEAK_REPORTERS, Metrics } from '../../observability/metrics/metrics.ts'
import { type LeakAction, type LeakOutcome, type Registry, reportLeak } from '../keys/index.ts'
import type { Caller } from '../platform/access/principal.ts'
import type { LeakFinding } from '../platform/audit/entries.ts'
import { OutcomeUnknown } from '../platform/database/database-unavailable.ts'

/** Keys that are revoked at the same time: a report of a thousand must not hold up other changes. */
const AT_ONCE = 16
export const MAX_PLACE_LENGTH = 500
const NOT_SHOWN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu
const SOURCE = /^[a-z_]{1,40}$/

export type Reporter = (typeof LEAK_REPORTERS)[number]
/** `unknown`: no key of ours. */
export type TokenOutcome = LeakOutcome | 'unknown'

/** What a report says of a token, before it is checked. */
interface ReportedPlace {
  readonly url?: unknown
  readonly source?: unknown
}

export interface ReportedToken extends ReportedPlace {
  readonly token: string
}

interface LeakTokenParts {
  readonly registry: Registry
  readonly metrics: Pick<Metrics, 'leakReports'>
  readonly action: LeakAction
}

/** Handles reported tokens. @returns one outcome for each, in their order */
export type HandleTokens = (
  reporter: Reporter,
  tokens: readonly ReportedToken[],
  caller: Caller,
) => Promise<TokenOutcome[]>

export function createTokenHandler(parts: LeakTokenParts): HandleTokens {
  const { registry, metrics } = parts
  const reporting = new Map<string, Promise<unknown>>()
  return async (reporter, tokens, caller) => {
    // Every token is looked up, also one without the form or MAC of a key: so all that are unknown take the same time.
    const digests = tokens.map(({ token }) => digestKey(token))
    const keys = await registry.stored.findByDigests([...new Set(digests)])
    const outcomes: TokenOutcome[] = tokens.map(() => 'unknown')
    const ours = tokens.flatMap((reported, index) => {
      const key = keys.get(digests[index] ?? '')
      return key === undefined ? [] : [{ reported, key, index }]
    })
    for (let from = 0; from < ours.length; from += AT_ONCE) {
      await Promise.all(
        ours.slice(from, from + AT_ONCE).map(async ({ reported, key, index }) => {
          outcomes[index] = await inTurn(reporting, key, () => report(parts, reported, key, caller))
        }),
      )
    }
    for (const outcome of outcomes) metrics.leakReports.inc({ reporter, outcome })
    return outcomes
  }
}

async function report(
  { registry, action }: LeakTokenParts,
  { token, ...place }: ReportedToken,
  { record }: StoredKey,
  caller: Caller,
): Promise<LeakOutcome> {
  const finding = describeFinding(place, { token, keyPrefix: registry.keyPrefix })
  const context = { caller, idempotency: null }
  const reported = reportLeak(registry, record.id, { finding, action }, context)
  const result = await reported.catch((error: unknown) => {
    // The response must not name the key: its holder may not know its id.
    throw error instanceof OutcomeUnknown ? error.cause : error
  })
  if (result.kind === 'done') return result.leak
  throw new Error(`The report of a leaked key was not recorded: ${result.kind}`)
}

/** One report of a key after the other, so that a repeated one finds the entry of the first. */
async function inTurn<Result>(
  running: Map<string, Promise<unknown>>,
  { digest }: StoredKey,
  run: () => Promise<Result>,
): Promise<Result> {
  const before = running.get(digest) ?? Promise.resolve()
  const mine = before.then(run, run)
  running.set(digest, mine)
  try {
    return await mine
  } finally {
    if (running.get(digest) === mine) running.delete(digest)
  }
}

/** What the audit log may hold of it: bounded, without invisible characters, and never the token. */
export function describeFinding(
  { url, source }: ReportedPlace,
  { token, keyPrefix }: { readonly token: string; readonly keyPrefix: string },
): LeakFinding {
  return {
    foundAt: typeof url === 'string' ? visiblePlace(url, token, keyPrefix) : null,
    source: typeof source === 'string' && SOURCE.test(source) ? source : null,
  }
}

/** @returns null for an empty text, and for one that contains a key */
function visiblePlace(url: string, token: string, keyPrefix: string): string | null {
  const visible = url.replace(NOT_SHOWN, '')
  const holdsKey = [visible, percentDecoded(visible) ?? visible].some(
    text => text.includes(token) || holdsSecretForm(text, keyPrefix),
  )
  if (visible === '' || holdsKey) return null
  return [...visible].slice(0, MAX_PLACE_LENGTH).join('')
}
