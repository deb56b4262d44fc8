import type { Define } from '../../cli.ts'
import { addImport } from './import.ts'
import { addIssue } from './issue.ts'
import { addList } from './list.ts'
import { addRevoke } from './revoke.ts'
import { addRotate } from './rotate.ts'
import { addSync } from './sync.ts'

/** `postern keys …`: manages keys through the admin API. */
export const define: Define = (keys, cli) => {
  for (const add of [addIssue, addList, addRotate, addRevoke, addSync, addImport]) add(keys, cli)
}
