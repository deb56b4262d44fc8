import { toInstant } from '../../../domain/form/instant.ts'
import type { KeyRecord, StoredKey } from '../../../domain/key/key-record.ts'
import {
  confirmedText,
  elsewhereText,
  NO_GATEWAY_KNOWN,
  regionText,
  retryText,
  verifyingText,
} from '../../../domain/progress-text.ts'
import {
  type Announced,
  areNamed,
  awaitConfirmations,
  CONFIRMATIONS_KEPT_MS,
  type ConfirmationReport,
  type Confirmations,
  isAnnounced,
  readConfirmations,
} from '../../announcing/index.ts'
import { findTrouble } from '../../platform/database/database-unavailable.ts'
import { exactInstant, type Html, html, type Piece } from '../../platform/html/html.ts'
import type { OperationSuccess, Registry } from './registry.ts'

/** How often a page looks whether a change has come further. */
export const REFRESH_SECONDS = 3

/** How far a change to a key has come: a revocation, suspension, resumption or edit. */
export interface ChangeProgress {
  readonly announced: Announced
  /**
   * Null if nothing was changed and the key is not rejected, or if it was rotated and works until its overlap ends.
   */
  readonly committedAtMs: number | null
  /** Null if another request announced it, or it is not announced yet. */
  readonly announcedAtMs: number | null
  /** Null where `committedAtMs` is, if the change is so old that confirmations were deleted, or if they cannot be read. */
  readonly gateways: ConfirmationReport | null
}

/**
 * @param success of a rotation: the progress is that of the old key
 * @param mustWait waits for up to a second until at least one gateway is known and all have confirmed
 */
export async function readChangeProgress(
  registry: Pick<Registry, 'clock' | 'timers' | 'gateways'>,
  success: OperationSuccess,
  mustWait: boolean,
): Promise<ChangeProgress> {
  const { announced, announcedAtMs } = success
  const { record, digest } = success.replaced ?? success
  const committedAtMs = commitTimeMs(success)
  if (committedAtMs === null) return { announced, committedAtMs, announcedAtMs: null, gateways: null }
  const change = { digest, version: record.version, committedAtMs }
  const isKnown = registry.clock.wallMs() - committedAtMs <= CONFIRMATIONS_KEPT_MS
  const read = mustWait ? awaitConfirmations : readConfirmations
  const gateways = isKnown
    ? await read(registry, change, announced).catch((error: unknown) => unknownAfterCommit(success, error))
    : null
  return { announced, committedAtMs, announcedAtMs, gateways }
}

/**
 * How far the revocation, suspension or resumption of a key has come; null for a key that has none, or was resumed long ago. What
 * waits is announced.
 */
export async function readLastProgress(registry: Registry, key: StoredKey): Promise<ChangeProgress | null> {
  const { revokedAtMs, suspendedAtMs } = key.record
  const committedAtMs = revokedAtMs ?? suspendedAtMs ?? (await findResumedAtMs(registry, key.record))
  if (committedAtMs === null) return null
  return readProgressSince(registry, key, { version: key.record.version, committedAtMs })
}

/**
 * How far a change of the plan has come, which the record of the key does not date: as far as the last change of the key, which
 * may be a later one. Null for a key that was never changed.
 */
export async function readPlanProgress(registry: Registry, key: StoredKey): Promise<ChangeProgress | null> {
  const last = await registry.stored.findVersion(key.record.id)
  return last === null || last.version === 1 ? null : readProgressSince(registry, key, last)
}

async function readProgressSince(
  registry: Registry,
  key: StoredKey,
  { version, committedAtMs }: { readonly version: number; readonly committedAtMs: number },
): Promise<ChangeProgress> {
  const announced = await registry.inEachRegion(outbox => outbox.announcePending(key))
  const isKnown = registry.clock.wallMs() - committedAtMs <= CONFIRMATIONS_KEPT_MS
  const change = { digest: key.digest, version, committedAtMs }
  const gateways = isKnown ? await readConfirmations(registry, change, announced) : null
  return { announced, committedAtMs, announcedAtMs: null, gateways }
}

/** Changes of a key that may have followed its resumption. */
const MAX_AFTER_RESUMPTION = 20

/** The audit log has the time, which a record does not; null if confirmations of that time were deleted. */
async function findResumedAtMs({ history, clock }: Registry, record: KeyRecord): Promise<number | null> {
  const recent = { sinceMs: clock.wallMs() - CONFIRMATIONS_KEPT_MS, limit: MAX_AFTER_RESUMPTION }
  const entries = await history.listHistory(record, recent)
  return entries.find(({ action }) => action === 'key.resumed')?.atMs ?? null
}

/** Longer than a gateway that has ended is waited for, and than one needs to start again. */
const WATCHED_MS = 120_000

/** Whether a page looks again by itself: for some minutes, while a region or a gateway has not confirmed the change. */
export function isWatched(
  { announced, committedAtMs, gateways }: Omit<ChangeProgress, 'announcedAtMs'>,
  nowMs: number,
): boolean {
  if (committedAtMs === null || nowMs - committedAtMs > WATCHED_MS) return false
  return (
    !isAnnounced(announced) || (gateways !== null && (gateways.known === 0 || gateways.silent.length > 0))
  )
}

/** A change that this request committed must not look like a failure. */
function unknownAfterCommit({ changed }: OperationSuccess, error: unknown): null {
  if (changed && findTrouble(error) !== null) return null
  throw error
}

/** Where an earlier request made the change, its record says when. */
function commitTimeMs({ record, replaced, committedAtMs }: OperationSuccess): number | null {
  if (replaced !== null && replaced.record.revokedAtMs === null) return null
  const { revokedAtMs, suspendedAtMs } = replaced?.record ?? record
  return committedAtMs ?? revokedAtMs ?? suspendedAtMs
}

/** As the admin API shows it. */
export function progressJson(progress: ChangeProgress) {
  const { announced, ...confirmed } = bulkProgressJson(progress)
  const { committedAtMs, announcedAtMs } = progress
  const times = { committedAt: toInstant(committedAtMs), announcedAt: toInstant(announcedAtMs) }
  return { announced, ...times, ...confirmed }
}

/** The progress of a change to many keys: announced if each was, confirmed as to the last, since gateways apply changes in their order. */
export interface BulkProgress extends Omit<ChangeProgress, 'announcedAtMs'> {
  /** The key that was changed last; null if none was. */
  readonly lastKeyId: string | null
}

export function bulkProgressJson({ announced, gateways }: Pick<BulkProgress, 'announced' | 'gateways'>) {
  return {
    announced: isAnnounced(announced),
    gateways: confirmationsJson(gateways),
    ...regionsJson(announced, gateways),
  }
}

/** The part of each region, if the settings name any. */
function regionsJson(announced: Announced, report: ConfirmationReport | null) {
  if (!areNamed(announced)) return {}
  const regions = announced.map(({ region, announced }) => {
    const gateways = report?.regions.find(({ name }) => name === region)?.gateways ?? null
    return { name: region, announced, gateways: confirmationsJson(gateways) }
  })
  return { regions }
}

function confirmationsJson(gateways: Confirmations | null) {
  if (gateways === null) return null
  const { known, confirmed, verifying } = gateways
  const silent = gateways.silent.map(({ name, lastSeenAtMs }) => ({
    name,
    lastSeenAt: toInstant(lastSeenAtMs),
  }))
  return { known, confirmed, verifying, silent }
}

/**
 * As a page shows it: saved, announced, confirmed by the gateways.
 * @param watched the page that has its later state, which the script reads; null if it stays as it is
 */
export function changeSteps(
  { committedAtMs, announced, announcedAtMs, gateways }: ChangeProgress,
  watched: string | null,
): Html {
  return html`<ol class="steps card" id="progress"${refreshes(watched)}>
    ${committedAtMs === null ? null : step(true, 'Saved', exactInstant(committedAtMs))}
    ${isAnnounced(announced) ? step(true, 'Announced', announcedText(committedAtMs, announcedAtMs)) : step(false, 'Not announced yet', notAnnouncedText(announced))}
    ${gateways === null ? null : confirmationStep(gateways)}
  </ol>`
}

/** @param watched as of `changeSteps` */
export function bulkSteps(
  { announced, gateways }: Pick<BulkProgress, 'announced' | 'gateways'>,
  watched: string | null,
): Html {
  return html`<ol class="steps card" id="progress"${refreshes(watched)}>
    ${isAnnounced(announced) ? step(true, 'Announced', '') : step(false, 'Not all announced yet', notAnnouncedText(announced))}
    ${gateways === null ? null : confirmationStep(gateways)}
  </ol>`
}

function refreshes(watched: string | null): Html | null {
  return watched === null ? null : html` data-refreshes="${REFRESH_SECONDS}" data-from="${watched}"`
}

/** For readers without the script. */
export function looksAgainNote(watched: string | null): Html | null {
  return watched === null
    ? null
    : html`<noscript><p class="muted">This page looks again every ${REFRESH_SECONDS} seconds. <a href="${watched}">Look now</a></p></noscript>`
}

function notAnnouncedText(announced: Announced): string {
  const away = announced.filter(region => !region.announced).map(({ region }) => region)
  return retryText(areNamed(announced) ? away : [])
}

function announcedText(committedAtMs: number | null, announcedAtMs: number | null): Piece {
  if (committedAtMs === null || announcedAtMs === null) return 'An earlier request announced it.'
  return html`${exactInstant(announcedAtMs)}, ${Math.max(0, announcedAtMs - committedAtMs)} ms later`
}

function confirmationStep(report: ConfirmationReport): Html {
  const { known, silent } = report
  if (known === 0) return step(false, 'No gateways known', NO_GATEWAY_KNOWN)
  const verifying = verifyingText(report)
  const names = silent.map(
    ({ name, lastSeenAtMs }) => html`<li><code>${name}</code>, last seen ${exactInstant(lastSeenAtMs)}</li>`,
  )
  return step(
    silent.length === 0,
    confirmedText(report),
    html`${verifying === null ? null : `${verifying}.`} ${silent.length === 0 ? null : html`No confirmation within one second from:<ul>${names}</ul>`}${regionList(report)}`,
  )
}

/** How many gateways of each region have confirmed; nothing without regions in the settings. */
function regionList(report: ConfirmationReport): Piece {
  const { regions } = report
  if (!areNamed(regions.map(({ name, announced }) => ({ region: name, announced })))) return null
  const rows = regions.map(
    ({ name, ...region }) => html`<li><code>${name}</code>: ${regionText(region)}</li>`,
  )
  const elsewhere = elsewhereText(
    report,
    regions.map(({ gateways }) => gateways.known),
  )
  return html`<ul>${rows}${elsewhere === null ? null : html`<li>${elsewhere}</li>`}</ul>`
}

function step(done: boolean, title: string, text: Piece): Html {
  return html`<li class="${done ? 'done' : 'waiting'}"><strong>${title}</strong> ${text}</li>`
}
