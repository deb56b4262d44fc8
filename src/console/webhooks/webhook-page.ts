import type { Problems } from '../platform/html/form-fields.ts'
import { errorSummary, hidden, textInput } from '../platform/html/form-parts.ts'
import { type Html, html } from '../platform/html/html.ts'
import { type Frame, page } from '../platform/html/layout.ts'
import { ago } from '../platform/html/times.ts'
import { type DeliveriesView, deliveryList, testForm } from './deliveries-page.ts'
import { MAX_URL_LENGTH } from './workspaces/webhook-address.ts'
import type { WorkspaceWebhook } from './workspaces/workspace-webhook-store.ts'
import { webhookSiteOf } from './workspaces/workspace-webhooks.ts'

const TITLE = 'Webhook of this workspace'

export interface WebhookView extends DeliveriesView {
  readonly webhook: WorkspaceWebhook | null
  /** The address as it was entered. */
  readonly url: string
  readonly problems: Problems
}

/** The workspace's own webhook, with its deliveries. */
export function webhookPage(frame: Frame, view: WebhookView): Html {
  const { webhook, problems } = view
  const main = html`<div class="title"><h1>${TITLE}</h1>${webhook !== null && frame.mayChange ? testForm(frame, view) : null}</div>
    <p class="lead">Receives events about keys of this workspace, signed with its own secret.</p>
    ${errorSummary(problems)}
    ${webhook === null ? html`<p class="empty">No webhook is set.</p>` : facts(frame, webhook)}
    ${frame.mayChange ? forms(frame, view) : null}
    <h2>Deliveries</h2>
    ${deliveryList(frame, view)}`
  return page(frame, { title: problems.size > 0 ? `Error: ${TITLE}` : TITLE, section: 'deliveries', main })
}

/** A path may hold a secret of the receiver: who may not change the webhook sees the site alone. */
function facts({ mayChange, nowMs }: Frame, webhook: WorkspaceWebhook): Html {
  return html`<dl class="facts">
    <div><dt>Address</dt><dd class="breaks">${mayChange ? webhook.url : webhookSiteOf(webhook)}</dd></div>
    <div><dt>Set</dt><dd>${ago(webhook.createdAtMs, nowMs)}</dd></div>
  </dl>`
}

function forms({ csrfToken }: Frame, { path, webhook, url, problems }: WebhookView): Html {
  const hint =
    'An https: address that the Internet can reach. Setting it makes a new secret, which the next page shows once'
  const remove = html`<form method="post" action="${path}/remove">${hidden({ _csrf: csrfToken })}<button class="danger">Remove the webhook</button></form>`
  return html`<form class="card" method="post" action="${path}" novalidate>
      ${hidden({ _csrf: csrfToken })}
      ${textInput({ name: 'url', label: 'Address', hint, problems }, url, html`type="url" inputmode="url" maxlength="${MAX_URL_LENGTH}" required`)}
      <div class="actions"><button class="primary">Set address</button></div>
    </form>
    ${webhook === null ? null : remove}`
}

/** Answers the form, so that no address leads back to the secret. */
export function webhookSecretPage(frame: Frame, path: string, secret: string): Html {
  const main = html`<h1>Webhook set</h1>
    <section class="card once" data-secret data-then="${path}" aria-labelledby="secret-title">
      <h2 id="secret-title">Copy the secret now</h2>
      <p class="notice warn"><strong>It is shown only once.</strong> It signs every event. If you lose it, set the address again to get a new one.</p>
      <div class="copyable">
        <code id="secret" class="secret" tabindex="0" aria-label="Secret">${secret}</code>
        <button type="button" data-copies="secret" hidden>Copy</button>
      </div>
    </section>
    <p class="actions"><a class="button primary" href="${path}">I have saved it</a></p>`
  return page(frame, { title: 'Copy the secret', section: 'deliveries', main })
}
