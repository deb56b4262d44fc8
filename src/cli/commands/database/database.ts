import type { Define } from '../../cli.ts'
import { addBackup } from './backup.ts'
import { addCopy } from './copy.ts'
import { addRestore } from './restore.ts'

/** `postern database …`, which reads and writes the databases itself. */
export const define: Define = (database, cli) => {
  for (const add of [addBackup, addRestore, addCopy]) add(database, cli)
}
