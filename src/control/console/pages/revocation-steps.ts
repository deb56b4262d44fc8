import type { Confirmations } from '../../registry/announcing/confirmations.ts'
import type { RevocationProgress } from '../../registry/operations/revocation-progress.ts'
import { type Html, html, type Piece } from '../layout/html.ts'
import { exactText } from '../layout/times.ts'

/** How far a revocation has come: on record, announced, confirmed by the gateways. */
export function revocationSteps({
  committedAtMs,
  announced,
  announcedAtMs,
  gateways,
}: RevocationProgress): Html {
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

const NONE_KNOWN =
  'None has reported to this console within the last minute, so none can confirm that it refuses the key.'

function heard({ known, confirmed, verifying, silent }: Confirmations): Html {
  if (known === 0) return step(false, 'No gateway is known', NONE_KNOWN)
  const title = `${confirmed} of ${known} ${known === 1 ? 'gateway has' : 'gateways have'} confirmed`
  if (silent.length === 0) return step(true, title, verifyingText(verifying))
  const names = silent.map(
    ({ name, lastSeenAtMs }) => html`<li><code>${name}</code>, last heard of ${exact(lastSeenAtMs)}</li>`,
  )
  return step(
    false,
    title,
    html`${verifyingText(verifying)} No answer within a second from:<ul>${names}</ul>`,
  )
}

/** A disconnected gateway is as good as one that confirms, since it accepts no key unverified. */
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
