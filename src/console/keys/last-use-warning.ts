import { ago, type Html, html, instant } from '../platform/html/html.ts'
import { type RecentUse, recentUseText } from '../usage/index.ts'
import type { KeyView } from './key-view.ts'

/** Shown before a key is revoked. Gateways report use with a delay. */
export function lastUseWarning(
  { lastUsedAtMs }: Pick<KeyView, 'lastUsedAtMs'>,
  recent: RecentUse | null,
  nowMs: number,
): Html {
  const counted = recent === null ? null : html`<p>${recentUseText(recent, nowMs)}.</p>`
  if (lastUsedAtMs === null) {
    return html`<p><strong>This key was never used.</strong> Gateways report use with a delay, so a first use may not show yet.</p>${counted}`
  }
  return html`<p><strong>This key was last used ${ago(lastUsedAtMs, nowMs)}</strong>, at ${instant(lastUsedAtMs)}. Requests with it are rejected as soon as you confirm.</p>${counted}`
}
