import { type Announced, areNamed, type ConfirmationReport, isAnnounced } from '../../announcing/index.ts'
import { exactText, type Html, html, type Piece } from '../../platform/html/html.ts'
import type { ChangeProgress } from '../operations/change-progress.ts'
import type { BulkOutcome } from '../operations/revoke-all.ts'

/** The progress of a change to a key: saved, announced, confirmed by the gateways. */
export function changeSteps({ committedAtMs, announced, announcedAtMs, gateways }: ChangeProgress): Html {
  return html`<ol class="steps card" id="progress">
    ${committedAtMs === null ? null : step(true, 'Saved', exact(committedAtMs))}
    ${isAnnounced(announced) ? step(true, 'Announced', announcedText(committedAtMs, announcedAtMs)) : step(false, 'Not announced yet', notAnnouncedText(announced))}
    ${gateways === null ? null : confirmationStep(gateways)}
  </ol>`
}

/** The progress of a change to many keys. */
export function bulkSteps({ announced, gateways }: Pick<BulkOutcome, 'announced' | 'gateways'>): Html {
  return html`<ol class="steps card" id="progress">
    ${isAnnounced(announced) ? step(true, 'Announced', '') : step(false, 'Not all announced yet', notAnnouncedText(announced))}
    ${gateways === null ? null : confirmationStep(gateways)}
  </ol>`
}

function notAnnouncedText(announced: Announced): string {
  if (!areNamed(announced)) return NOT_ANNOUNCED
  const away = announced.filter(region => !region.announced).map(({ region }) => region)
  return `${NOT_ANNOUNCED} Regions that wait: ${away.join(', ')}.`
}

const NOT_ANNOUNCED =
  'The console cannot reach Redis and keeps retrying. Disconnected gateways verify each key with the console before they accept it.'

function announcedText(committedAtMs: number | null, announcedAtMs: number | null): Piece {
  if (committedAtMs === null || announcedAtMs === null) return 'An earlier request announced it.'
  return html`${exact(announcedAtMs)}, ${Math.max(0, announcedAtMs - committedAtMs)} ms later`
}

const NONE_KNOWN =
  'No gateway has reported to this console within the last minute, so none can confirm the change.'

function confirmationStep(report: ConfirmationReport): Html {
  const { known, confirmed, verifying, silent } = report
  if (known === 0) return step(false, 'No gateways known', NONE_KNOWN)
  const title = `Confirmed by ${confirmed} of ${known} ${known === 1 ? 'gateway' : 'gateways'}`
  if (silent.length === 0) return step(true, title, html`${verifyingText(verifying)} ${regionList(report)}`)
  const names = silent.map(
    ({ name, lastSeenAtMs }) => html`<li><code>${name}</code>, last seen ${exact(lastSeenAtMs)}</li>`,
  )
  return step(
    false,
    title,
    html`${verifyingText(verifying)} No confirmation within one second from:<ul>${names}</ul>${regionList(report)}`,
  )
}

/** How many gateways of each region have confirmed; nothing without regions in the settings. */
function regionList({ known, regions }: ConfirmationReport): Piece {
  if (!areNamed(regions.map(({ name, announced }) => ({ region: name, announced })))) return null
  const rows = regions.map(
    ({ name, announced, gateways: { known, confirmed } }) =>
      html`<li><code>${name}</code>: ${announced ? '' : 'not announced yet; '}confirmed by ${confirmed} of ${known}</li>`,
  )
  const elsewhere = regions.reduce((left, { gateways }) => left - gateways.known, known)
  return html`<ul>${rows}${elsewhere > 0 ? html`<li>${elsewhere} in none of these regions: set <code>region</code> there as here</li>` : null}</ul>`
}

/** A disconnected gateway counts as safe: it accepts no key unverified. */
function verifyingText(verifying: number): string {
  if (verifying === 0) return ''
  const checks = verifying === 1 ? 'is disconnected and checks' : 'are disconnected and check'
  return `${verifying} ${checks} each key with the console before accepting it.`
}

function step(done: boolean, title: string, text: Piece): Html {
  return html`<li class="${done ? 'done' : 'waiting'}"><strong>${title}</strong> ${text}</li>`
}

function exact(atMs: number): Html {
  return html`<time datetime="${new Date(atMs).toISOString()}">${exactText(atMs)}</time>`
}
