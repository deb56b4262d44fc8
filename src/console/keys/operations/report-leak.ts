import { planRevocation } from '../../../domain/key/revoke-or-suspend.ts'
import { auditLeak, type LeakFinding } from '../../platform/audit/entries.ts'
import type { Registry } from '../registry.ts'
import {
  type OperationContext,
  type OperationRejection,
  type OperationSuccess,
  runOperation,
} from './run-operation.ts'

/** What becomes of a key that was reported as leaked. */
export type LeakAction = 'revoke' | 'report'
/** `known`: this finding changed nothing, because it, or enough others, were reported before. */
export type LeakOutcome = 'revoked' | 'reported' | 'known'

export interface LeakReport {
  readonly finding: LeakFinding
  readonly action: LeakAction
}

/** Places of one key that are recorded: the holder of a key cannot fill the audit log with reports of it. */
const MAX_FINDINGS = 10

/** Revokes a leaked key or notes the report. A report that was received before changes nothing. */
export async function reportLeak(
  registry: Registry,
  keyId: string,
  { finding, action }: LeakReport,
  context: OperationContext,
): Promise<(OperationSuccess & { readonly leak: LeakOutcome }) | OperationRejection> {
  const { repository, clock, newAuditId } = registry
  let leak: LeakOutcome = 'known'
  const result = await runOperation(registry, context, async () => {
    const key = await repository.findById(keyId)
    if (key === null) return { kind: 'unknown_key' }
    const known = await repository.listLeaks(keyId)
    const nowMs = clock.wallMs()
    const record = action === 'revoke' ? planRevocation(key.record, nowMs) : key.record
    const replaced = record === key.record ? null : { record, digest: key.digest }
    const isKnown =
      known.length >= MAX_FINDINGS || known.some(({ detail }) => detail['foundAt'] === finding.foundAt)
    leak = replaced !== null ? 'revoked' : isKnown ? 'known' : 'reported'
    const audited = { id: newAuditId(nowMs), atMs: nowMs, caller: context.caller }
    const entryOf = (what: 'key.revoked' | 'key.reported') => [auditLeak(what, record, finding, audited)]
    const audit = leak === 'known' ? [] : entryOf(leak === 'revoked' ? 'key.revoked' : 'key.reported')
    return { kind: 'planned', issued: null, replaced, audit, record, digest: key.digest, secret: null }
  })
  return result.kind === 'done' ? { ...result, leak } : result
}
