import type { FastifyReply } from 'fastify'
import type { Clock } from '../../../domain/clock.ts'
import { toInstant } from '../../../domain/instant.ts'
import { type KeyRecord, keyState } from '../../../domain/key/key-record.ts'
import { toRecordJson } from '../../../domain/wire.ts'
import type { ConfirmationReport, Confirmations } from '../../announcing/index.ts'
import { type Announced, areNamed, isAnnounced } from '../../announcing/index.ts'
import type { ChangeProgress } from '../operations/change-progress.ts'
import type { Registry } from '../registry.ts'

/** A key with its state and last use. */
export function keyJson(record: KeyRecord, clock: Clock, lastUsedAtMs: number | null) {
  return {
    ...toRecordJson(record),
    state: keyState(record, clock.wallMs()),
    lastUsedAt: toInstant(lastUsedAtMs),
  }
}

export async function keyWithUseJson(registry: Registry, record: KeyRecord) {
  return keyJson(record, registry.clock, await lastUseOf(registry, record.id))
}

/** For a change read before it: what follows the commit must not fail. */
export async function lastUseOf({ repository }: Registry, keyId: string): Promise<number | null> {
  return (await repository.lastUses([keyId])).get(keyId) ?? null
}

export function progressJson({ announced, committedAtMs, announcedAtMs, gateways }: ChangeProgress) {
  return {
    announced: isAnnounced(announced),
    committedAt: toInstant(committedAtMs),
    announcedAt: toInstant(announcedAtMs),
    gateways: confirmationsJson(gateways),
    ...regionsJson(announced, gateways),
  }
}

/** The part of each region, if the settings name any. */
export function regionsJson(announced: Announced, report: ConfirmationReport | null) {
  if (!areNamed(announced)) return {}
  const regions = announced.map(({ region, announced }) => {
    const gateways = report?.regions.find(({ name }) => name === region)?.gateways ?? null
    return { name: region, announced, gateways: confirmationsJson(gateways) }
  })
  return { regions }
}

export function confirmationsJson(gateways: Confirmations | null) {
  if (gateways === null) return null
  const { known, confirmed, verifying } = gateways
  const silent = gateways.silent.map(({ name, lastSeenAtMs }) => ({
    name,
    lastSeenAt: toInstant(lastSeenAtMs),
  }))
  return { known, confirmed, verifying, silent }
}

/** The entity tag of a key (RFC 9110, section 8.8.3): its version, which its edits must name. */
export function setVersionTag(reply: FastifyReply, { version }: { readonly version: number }): void {
  void reply.header('etag', versionTag(version))
}

export function versionTag(version: number): string {
  return `"${version}"`
}
