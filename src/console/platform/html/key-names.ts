import type { KeyRecord } from '../../../domain/key/key-record.ts'
import { type Html, html, markInvisible } from './html.ts'
import { keyPath } from './paths.ts'

/** A name as every page shows it: never as nothing, which would leave a link without a width. */
export function nameHtml({ name, id }: Pick<KeyRecord, 'name' | 'id'>): Html {
  return markInvisible(name === '' ? id : name)
}

/** A link with the key's name. */
export function keyLink({ record }: { readonly record: KeyRecord }): Html {
  return html`<a class="key-name" href="${keyPath(record.workspaceId, record.id)}">${nameHtml(record)}</a>`
}

export function hintHtml({ hint }: Pick<KeyRecord, 'hint'>): Html {
  return html`<code class="hint-of-key">${hint}</code>`
}
