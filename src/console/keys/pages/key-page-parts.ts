import type { Config } from '../../../config/schema/schema.ts'
import type { UsageService } from '../../usage/index.ts'
import type { KeyParts } from '../operations/operation-counter.ts'

/** What the pages of keys use. */
export interface KeyPageParts extends KeyParts {
  readonly usage: Pick<UsageService, 'stores' | 'queries'>
  /** Each with a description of what it grants. */
  readonly scopes: Readonly<Record<string, string>>
  readonly routes: Config['routes']
  /** The API's public URL; null if none is configured. */
  readonly gatewayUrl: string | null
}
