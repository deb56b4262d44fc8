/** Nobody says that the address is wrong: there is no answer, or none yet. */
export class DatabaseUnreachable extends Error {}
