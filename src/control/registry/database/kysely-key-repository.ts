import type { Clock } from '../../../domain/clock.ts'
import { commitChange } from '../operations/commit-change.ts'
import { findAnswer, purgeAnswers } from './answer-rows.ts'
import { listAudit } from './audit-rows.ts'
import { createChangeWriter } from './change-writer.ts'
import type { Database } from './database.ts'
import { gatewaysHearing, noteGateway, purgeConfirmations } from './gateway-rows.ts'
import type { KeyRepository } from './key-repository.ts'
import { countByState, countForSync, findKey, findKeys, listForSync, listKeys } from './key-rows.ts'
import { lastUses, noteUse } from './key-use-rows.ts'
import { claimChanges, countPending, noteChangesSince, pendingChangesOf, pendingSpan } from './outbox-rows.ts'

/**
 * @param clock says when a change is committed
 * @param me tells this console's claims from another's
 */
export function createKeyRepository(database: Database, clock: Clock, me: string): KeyRepository {
  const { reader, dialect, close } = database
  const writer = createChangeWriter(database)
  const now = () => clock.wallMs()
  return {
    commit: change => commitChange(writer, change, { now, dialect }),
    findById: id => findKey(reader, 'id', id),
    findByDigest: digest => findKey(reader, 'digest', digest),
    findByDigests: digests => findKeys(reader, digests),
    list: question => listKeys(reader, question),
    listAudit: question => listAudit(reader, question),
    findAnswer: repetition => findAnswer(reader, repetition, now()),
    listForSync: question => listForSync(reader, question),
    countForSync: expiresAfterMs => countForSync(reader, expiresAfterMs),
    noteUse: lastUsedMs => writer.run(tx => noteUse(tx, lastUsedMs, dialect)),
    lastUses: ids => lastUses(reader, ids),
    noteGateway: report => writer.run(tx => noteGateway(tx, report, { nowMs: now(), dialect })),
    gatewaysHearing: change => gatewaysHearing(reader, change),
    claimChanges: limit => writer.run(tx => claimChanges(tx, { me, nowMs: now(), limit, dialect })),
    pendingChangesOf: digest => pendingChangesOf(reader, digest),
    pendingSpan: () => pendingSpan(reader),
    countPending: () => countPending(reader),
    forgetChanges: announced => writer.forget(announced),
    noteChangesSince: sinceMs => writer.run(tx => noteChangesSince(tx, { sinceMs, nowMs: now() })),
    async purge() {
      while (await writer.run(tx => purgeAnswers(tx, now()))) {}
      while (await writer.run(tx => purgeConfirmations(tx, now()))) {}
    },
    countByState: census => countByState(reader, census),
    close,
  }
}
