import type { Define } from '../../cli.ts'
import { addIssue } from './issue.ts'
import { addList } from './list.ts'
import { addRevoke } from './revoke.ts'

/** `postern tokens …`: admin tokens of programs. */
export const define: Define = (tokens, cli) => {
  for (const add of [addIssue, addList, addRevoke]) add(tokens, cli)
}
