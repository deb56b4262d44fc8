import type { Confirmations } from '../registry/confirmations.ts'
import type { Revocation } from '../registry/revocation.ts'
import { type Html, html, type Piece } from './html.ts'
import { exactText } from './times.ts'

/** How far a revocation has come: on record, announced, heard by the gateways. */
export function revocationSteps({ committedAtMs, announced, announcedAtMs, gateways }: Revocation): Html {
  return html`<ol class="steps card" id="revocation">
    ${committedAtMs === null ? null : step(true, 'On record', exact(committedAtMs))}
    ${announced ? step(true, 'Announced', announcedText(committedAtMs, announcedAtMs)) : step(false, 'Not announced yet', NOT_ANNOUNCED)}
    ${gateways === null ? null : heard(gateways)}
  </ol>`
}

const NOT_ANNOUNCED =
  'The gateways could not be told. This is tried again until it works; a gateway that hears nothing asks the console before it lets a key pass.'

function announcedText(committedAtMs: number | null, announcedAtMs: number | null): Piece {
  if (committedAtMs === null || announcedAtMs === null) return 'The gateways were told earlier.'
  return html`${exact(announcedAtMs)}, ${Math.max(0, announcedAtMs - committedAtMs)} ms later`
}

function heard({ confirmed, verifying, silent }: Confirmations): Html {
  const live = confirmed + verifying + silent.length
  if (live === 0)
    return step(false, 'No gateway is known', 'None has reported to this console within the last minute.')
  const count = `${live - silent.length} of ${live} ${live === 1 ? 'gateway refuses' : 'gateways refuse'} it`
  if (silent.length === 0) return step(true, count, confirmedText(confirmed, verifying))
  const names = silent.map(
    ({ name, lastSeenAtMs }) => html`<li><code>${name}</code>, last heard of ${exact(lastSeenAtMs)}</li>`,
  )
  return step(false, count, html`Nothing was heard within a second of:<ul>${names}</ul>`)
}

/** A gateway that hears nothing is as good as one that confirms, since it lets no key pass unasked. */
function confirmedText(confirmed: number, verifying: number): string {
  if (verifying === 0) return confirmed === 1 ? 'It has confirmed so.' : 'Each of them has confirmed so.'
  const many = verifying > 1
  return `${confirmed} confirmed so; ${verifying} ${many ? 'hear' : 'hears'} no announcements and ${many ? 'ask' : 'asks'} the console about each key.`
}

function step(done: boolean, title: string, text: Piece): Html {
  return html`<li class="${done ? 'done' : 'waiting'}"><strong>${title}</strong> ${text}</li>`
}

function exact(atMs: number): Html {
  return html`<time datetime="${new Date(atMs).toISOString()}">${exactText(atMs)}</time>`
}
