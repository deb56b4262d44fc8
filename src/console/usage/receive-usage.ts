import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../../domain/clock.ts'
import type { Metrics } from '../../observability/metrics/metrics.ts'
import { ApiError, invalidField } from '../platform/http/api-error.ts'
import type { Call } from '../platform/http/calls.ts'
import { isKeyId } from '../platform/ids.ts'
import { checkReport, type KnownKeys } from './check-report.ts'
import {
  ENTRIES_EXPECTED,
  GATEWAY_EXPECTED,
  isGatewayName,
  MAX_ENTRIES,
  type RefusedEntries,
  SEQUENCE_EXPECTED,
  USED_EXPECTED,
  type UsageReportBody,
  usageReportBody,
} from './usage-report.ts'
import type { UsageWriter } from './usage-writer.ts'
import type { UseWriter } from './use-writer.ts'

/** 10,000 of the longest entries. */
const REPORT_LIMIT_BYTES = 6 * 1024 * 1024
const LISTS = ['counts', 'refusals', 'omittedRefusals'] as const

export interface ReceiveUsageParts {
  readonly uses: Pick<UseWriter, 'record'>
  readonly writer: Pick<UsageWriter, 'store'>
  readonly knownKeys: (report: UsageReportBody) => Promise<KnownKeys>
  readonly clock: Clock
  readonly metrics: Pick<Metrics, 'usageEntriesRefused'>
  /** Which parts of a report are kept. */
  readonly stores: { readonly counts: boolean; readonly refusals: boolean }
}

/** The call in which gateways report what was used, counted and refused. */
export function usageCall(parts: ReceiveUsageParts): Call {
  for (const list of LISTS) parts.metrics.usageEntriesRefused.inc({ list }, 0)
  return {
    method: 'POST',
    url: '/usage',
    operation: 'usage',
    schema: { body: usageReportBody },
    bodyLimitBytes: REPORT_LIMIT_BYTES,
    handle: (request, reply) => receiveUsage(parts, request, reply),
  }
}

async function receiveUsage(
  parts: ReceiveUsageParts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<unknown> {
  // The route's schema has validated the body.
  const body = request.body as UsageReportBody
  const { gateway, sequence, used = {} } = body
  const isNumbered = gateway !== undefined || sequence !== undefined
  if (!isNumbered && body.counts === undefined && body.refusals === undefined) {
    await recordUses(parts, body)
    return reply.code(204).send()
  }
  if (!isGatewayName(gateway)) throw invalidField('gateway', GATEWAY_EXPECTED)
  if (sequence === undefined) throw invalidField('sequence', SEQUENCE_EXPECTED)
  if (entriesIn(body) > MAX_ENTRIES) throw new ApiError('invalid_request', ENTRIES_EXPECTED)
  const { refused, ...checked } = await check(parts, body)
  const latest = usesOf(used, parts.clock.wallMs())
  await parts.writer.store({ gateway, sequence, ...checked, used: latest }).catch(() => {
    throw new ApiError('database_unavailable', 'The report is not stored; send it again', {
      'retry-after': '10',
    })
  })
  return responseTo(refused)
}

/** Names a few refused entries only: a response must not be larger than the report. */
function responseTo({ first, requests, ...refused }: RefusedEntries): object {
  const entries = LISTS.reduce((sum, list) => sum + refused[list], 0)
  return entries === 0 ? {} : { refused: entries, requests, first }
}

function entriesIn({ used = {}, counts = [], refusals = [], omittedRefusals = [] }: UsageReportBody): number {
  return Object.keys(used).length + counts.length + refusals.length + omittedRefusals.length
}

/** A gateway of the release before reports only when keys were last used. */
async function recordUses({ uses, clock }: ReceiveUsageParts, { used }: UsageReportBody): Promise<void> {
  if (used === undefined) throw invalidField('used', USED_EXPECTED)
  await uses.record(usesOf(used, clock.wallMs()))
}

async function check({ knownKeys, clock, metrics, stores }: ReceiveUsageParts, body: UsageReportBody) {
  const { counts = [], refusals = [], omittedRefusals = [] } = body
  const kept = {
    counts: stores.counts ? counts : [],
    refusals: stores.refusals ? refusals : [],
    omittedRefusals: stores.refusals ? omittedRefusals : [],
  }
  const checked = checkReport(kept, await knownKeys(kept), clock.wallMs())
  for (const list of LISTS) metrics.usageEntriesRefused.inc({ list }, checked.refused[list])
  return checked
}

/** A gateway's clock that is ahead must not set a time in the future. */
function usesOf(used: Readonly<Record<string, number>>, nowMs: number): ReadonlyMap<string, number> {
  const uses = Object.entries(used).filter(([id]) => isKeyId(id))
  return new Map(uses.map(([id, ms]) => [id, Math.min(ms, nowMs)]))
}
