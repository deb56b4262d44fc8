import type { ShownRefusal } from '../admin/refusal-responses.ts'
import type { Column } from './table.ts'
import { plainText } from './text.ts'

/** Rejected requests as `refusals list` shows them. The reason and the key are never cut: they are what people look for. */
export const REFUSAL_COLUMNS: readonly Column<ShownRefusal>[] = [
  { title: 'AT (UTC)', text: ({ at }) => at.slice(0, 19).replace('T', ' ') },
  { title: 'REASON', text: ({ reason }) => plainText(reason) },
  { title: 'KEY', text: ({ keyId }) => plainText(keyId) },
  { title: 'ROUTE', text: ({ route }) => plainText(route), atLeast: 8, leaves: 3 },
  { title: 'CODE', text: ({ code }) => plainText(code), atLeast: 8, leaves: 4 },
  { title: 'REQUEST', text: ({ requestId }) => plainText(requestId), atLeast: 12, leaves: 2 },
  { title: 'ADDRESS', text: ({ address }) => plainText(address), leaves: 1 },
]
