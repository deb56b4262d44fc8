import { type IssueRequest, type Planned, planIssue } from '../../domain/issue-key.ts'
import type { KeyRecord } from '../../domain/key-record.ts'
import { digestOf, hintOf, mintSecret, type Secret } from '../../domain/secret.ts'
import type { Registry } from './registry.ts'

/** There are 62^4 hints: a workspace whose every draw is taken has a broken random generator. */
const MAX_DRAWS = 8

export interface IssuedKey {
  readonly record: KeyRecord
  /** To be shown once; kept nowhere. */
  readonly secret: Secret
}

/** Plan, save, announce. A secret whose hint another live key of the workspace shows is drawn again. */
export async function issueKey(
  registry: Registry,
  request: IssueRequest,
  { workspaceId, actor }: { workspaceId: string; actor: string },
): Promise<Planned<IssuedKey>> {
  const { repository, outbox, clock, keyPrefix } = registry
  for (let draw = 0; draw < MAX_DRAWS; draw++) {
    const nowMs = clock.wallMs()
    const secret = mintSecret(keyPrefix, registry.randomBytes(32), registry.signingKey)
    const context = { workspaceId, createdBy: actor, knownScopes: registry.knownScopes, nowMs }
    const named = { ...context, id: registry.newKeyId(nowMs), hint: hintOf(secret, keyPrefix) }
    const planned = planIssue(request, named)
    if (!planned.ok) return planned
    const key = { record: planned.value, digest: digestOf(secret.reveal()) }
    const change = await repository.insert(key)
    if (change === null) continue
    await outbox.announce(key, change)
    return { ok: true, value: { record: key.record, secret } }
  }
  throw new Error(`${MAX_DRAWS} new keys in a row had a hint that is taken: is the random generator broken?`)
}
