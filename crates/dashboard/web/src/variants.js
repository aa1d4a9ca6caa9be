// What became of the code of a pipeline, and what else was adapted: events by their kind.

/** Code that is made anew this often in a minute costs more than it gains. */
const OFTEN = 6;
const MINUTE_S = 60;

export const KINDS = {
  adopted: ['adopted', 'a variant took over'],
  dropped: ['dropped', 'a variant was tried and was not better'],
  trial: ['on trial', 'a variant is tried beside the one in use'],
  deoptimised: ['deoptimised', 'what a variant assumed does not hold any more'],
  adapted: ['adapted', 'workers, buffers, tables or windows, but no code'],
};

/** The kind of an event; a kind that this page does not know is not about code. */
export const kindOf = ({ kind }) => (Object.hasOwn(KINDS, kind) ? kind : 'adapted');

/** By how much a row became cheaper, as a share of what it cost before; null until it is known. */
export function gain({ nanos_per_row_before: before, nanos_per_row_after: after }) {
  return before == null || after == null || before === 0 ? null : (before - after) / before;
}

/** Counts of each subject, with a mark at those that are compiled again too often. */
export function bySubject({ events, compilations, programs, elapsed_s: elapsed }, problems) {
  const names = [
    ...new Set([
      ...programs.map(({ name }) => name),
      ...compilations.map(({ program }) => program),
      ...events.map(({ subject }) => subject),
    ]),
  ];
  return names.map((name) => {
    const own = events.filter(({ subject }) => subject === name);
    const made = compilations.filter(({ program }) => program === name);
    const number = (kind) => own.filter((event) => kindOf(event) === kind).length;
    const lately = own.filter(
      (event) => event.at_s > elapsed - MINUTE_S && ['adopted', 'deoptimised'].includes(kindOf(event)),
    ).length;
    return {
      name,
      events: own,
      compiled: made.filter(({ origin }) => origin === 'compiled').length,
      reused: made.filter(({ origin }) => origin !== 'compiled').length,
      compileSeconds: made.reduce((sum, { time_s: time }) => sum + time, 0),
      adopted: number('adopted'),
      dropped: number('dropped'),
      deoptimised: number('deoptimised'),
      program: programs.find((program) => program.name === name) ?? null,
      isRestless:
        lately >= OFTEN ||
        problems.some(({ kind, subject }) => kind === 'recompiles' && subject.split(':')[0] === name),
    };
  });
}
