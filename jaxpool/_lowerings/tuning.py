"""Every tuned constant: the threshold at which one way to compute becomes slower than another.

Results do not depend on these constants. Those for TPU and GPU, at the end, were chosen by figures
of their compilers (``benchmarks/accelerators.py`` for maxima, ``costs`` of ``compilers.py`` there
for other functions) or by times on an H100 or H200. Those for CPU were chosen on XLA:CPU (jaxlib
0.10.2, x86-64, two cores). Measure the latter again with

    python benchmarks/tuning.py [NAME..]

which runs the cases of a constant with other values, alternating between the compiled programs. The
cost of a value is the geometric mean over the cases of the time relative to the fastest value. The
table marks a committed value that costs over 20 % more than the best one. Limits imposed by dtypes
or by mathematics are defined where they are used.
"""

# --- values and argmax by slices ------------------------------------------------------------------

LONGEST_SLICED = 6
"""Maximum elements on an axis for which overlapping windows are reduced by slices."""

LONGEST_SLICED_STRIDED = 16
"""Maximum elements on an axis for which values are reduced by slices, if no element is read more
than LONGEST_SLICED times. For longer windows the program would grow."""

LONGEST_SLICED_SUM = 7
"""As LONGEST_SLICED, for sums along an axis other than the contiguous one."""

MIN_SHORT_ROW, MAX_SHORT_ROW = 3, 15
"""Minimum and maximum elements of a row for which strided sums along one axis use
``lax.reduce_window``. Means of 5 to 9 elements then take 0.4 to 0.9 of the time of slices."""

SHORTEST_PADDED_ROW = 3
"""Minimum elements on the contiguous axis for which padded sums and extremes at stride 1 along this
axis use ``lax.reduce_window``. Means of 3x3 then take 0.4 to 0.8 of the time, maxima 0.6 to 0.9."""

MIN_ROW_REDUCED, MAX_WINDOWS_OF_ELEMENT = 80, 8
"""Minimum elements of a window along the contiguous axis alone, and maximum number of windows that
contain an element, for which ``lax.reduce_window`` computes values. Windows of 100 and 1,000
elements then take 0.1 to 0.6 of the time of composed windows (bfloat16 0.4 to 1.3), and maxima of
non-overlapping windows 0.5 of the time of tiles. Of 64 elements, they would take three times it."""

MIN_BLOCK, MIN_BLOCK_TRANSPOSED = 16, 4
"""Minimum elements of a block for which strided windows are windows of blocks, and for which
transposes of sums are. Sums of 32 to 1,000 elements at half the stride then take 0.1 to 0.7 of the
time of composed windows, their gradients 0.06 to 0.8."""

MAX_BLOCKS_OF_WINDOW = 16
"""Maximum blocks of a window that ``lax.reduce_window`` reduces one by one."""

MAX_COPIED = 2**17
"""Maximum elements of an array for which sums at stride 1 are slices of a padded copy. They compile
in half the time or less and run 0.9 to 1.2 times as long, in larger arrays 1.5 to 1.9 times."""

MAX_BYTES_COPIED = 2**24
"""Maximum bytes of floats for which an argmax at stride 1 reads a padded copy of their keys. The
gradient of 3x3 maxima then compiles in half the time and runs 0.7 to 1.0 times as long."""

LONGEST_SLICED_APART = 32
"""As LONGEST_SLICED, for the argmax of non-overlapping windows in channels last."""

LONGEST_SLICED_ROWS = 32
"""As LONGEST_SLICED_APART, if the contiguous axis is pooled and a window has fewer than MIN_ROWS
elements on the other axes."""

MIN_ROWS = 4
"""Minimum elements on the other axes for which the argmax of windows along the contiguous axis is
found in full rows. Loops are then as long as a row."""

MAX_JOINT = 9
"""Maximum elements of a window over neighbouring axes for which one loop reads all of them.
Reducing axis by axis reads fewer elements, but stores the intermediate arrays."""

FEW_ELEMENTS = 4
"""Maximum elements of a window that may be computed twice: for values beside the argmax, in float32
for 16-bit floats, and by each operation that reads a result."""

MAX_FUSED = 16
"""Maximum elements of tiles for which the argmax along one axis is not stored for the next."""

MIN_BYTES_OF_SEGMENTS = 2**24
"""Minimum bytes of an array for which one loop per segment computes both values and argmax: reading
the array only once saves more than concatenating the results costs."""

MAX_COLLAPSED_ROW = 12
"""Maximum elements after the last pooled axis that CPU collapses with it for extremes at stride 1.
Windows of 9 and more then take 0.8 of the time, their indices and gradients 0.25; of 3 and 5 0.8 in
the mean, but values up to 1.6 and indices along one axis 1.9. With 15, 3x3 takes up to 1.5."""

ARGREDUCE_RADIX = 4
"""Number of smaller windows that compose a long window at each level of an argmax."""

# --- tiles ----------------------------------------------------------------------------------------

LONGEST_PASS, LONGEST_PASS_ROWS = 128, 16
"""Maximum elements of a tile along an axis for which an extreme or a sum of floats is computed from
slices, axis by axis; the second value applies to the contiguous axis. Sums then take 0.3 to 0.9 of
the time of ``lax.reduce``. Sums of float32 whose tiles would be a copy take 0.05 to 1.04 of the
time of ``lax.reduce_window``."""

MAX_ADDED_IN_LOOP = 14
"""Maximum slices that one loop adds. With 28, sums of 16-bit floats take up to 16 times as long,
because XLA:CPU does not vectorise the loop; those of float32 take 0.9 of the time."""

# --- gather and scatter ---------------------------------------------------------------------------

MAX_SLICED_OFFSETS = 64
"""Maximum elements of a window for which a gather has one slice per offset."""

OFFSETS_AT_ONCE = 8
"""Offsets that each step of a loop over all offsets reads. With 1, the loop takes ten times as
long. With 16, it compiles up to twice as long."""

MAX_SCATTERED = 9
"""Maximum elements of overlapping windows, and of windows along the contiguous axis, for which one
loop scatters all offsets."""

MAX_FUSED_COTANGENTS = 4
"""Maximum elements of a window for which a scatter in channels last recomputes the cotangents."""

MAX_PADDED_WINDOWS = 2**18
"""Maximum number of windows for which a scatter of strided windows pads the windows, which saves
XLA:CPU loops at the borders. Gradients of 3x3/2 maxima then compile in 0.5 to 0.7 of the time and
run 0.9 to 1.2 times as long."""

MAX_PADDED_SHIFTS = 2
"""Maximum number of windows that contain an element of the contiguous axis for which a strided
transpose along this axis pads the contribution of each window, which saves XLA:CPU loops at the
ends. Gradients of 3x3/2 in channels first run 0.7 to 1.05 times as long and use 11 bytes per
output, not 18. With 3 windows, soft pools of 5/2 take 1.3 times as long."""

LONGEST_SCATTERED = 7
"""Maximum elements on an axis for which a transpose along the axis has one slice per offset."""

SCATTER_RADIX = TERMS_RADIX = 6
"""Smaller windows that compose a long window at each level of a scatter: on CPU; on TPU and GPU."""

# --- windows as an axis ---------------------------------------------------------------------------

MAX_STACKED, LONGEST_STACKED = 64, 32
"""Maximum elements of a window for which ``windows`` stacks one slice per offset, and of an axis
that it stacks in one step. A reduction then fuses with the slices, and the windows are not stored.
A function that does not fuse compiles in 2.5 s at 100 elements, in two steps in 0.3 s."""

# --- counts ---------------------------------------------------------------------------------------

LONGEST_CONSTANT_RUN = 64
"""Maximum length of a run of windows with equal counts whose counts are a program constant."""

MAX_FULL_RUNS = 32
"""Maximum number of runs of windows with equal first offsets for which each run is one broadcast
scalar, which XLA folds. On jax 0.10, constants for one platform are in the programs for all."""

MAX_CONSTANT_COUNTS = 4096
"""Maximum number of windows for which the counts of all axes together are a constant of the
program. Padded 3x3 averages with gradient compile in 0.8 to 0.98 of the time and run as fast."""

# --- ragged windows, indices, terms, ranks --------------------------------------------------------

LONGEST_RAGGED = 64
"""Maximum elements of the longest ragged window along an axis for which each offset is a slice."""

MAX_RAGGED_JOINT = 32
"""Maximum elements of a ragged window over several axes that one loop reads."""

MAX_RAGGED_GROUPS = 8
"""Maximum number of groups of regular windows for which slices are faster than gathers."""

MAX_GROUPS_ON_TPU, MAX_RAGGED_ONE_BY_ONE = 3, 32
"""Maximum number of groups of regular windows for which TPU uses slices as well, and maximum number
of windows that TPU reduces one by one. On two axes of 32 elements with 7 windows each, one by one
moves 39 MB and slices move 122 MB; with 30 windows on 94 elements, in 6 groups, 140 and 378 MB."""

MAX_RAGGED_COMPARED = 16
"""Maximum number of windows, if at most the number of elements, for which each element of the
contiguous axis is compared with all windows. Gathers along this axis are slow."""

MAX_COMPARED_IN_BLOCK = 64
"""Maximum elements of a block of ``max_unpool`` for which an index is compared with each."""

LONGEST_TERMS_SLICED = 16
"""Maximum elements on an axis for which the transpose of strided scaled sums has one slice per
offset, and for which the name "slices" is accepted."""

JOIN_RADIX = 6
"""Number of smaller windows that compose a long window at each level of scaled sums or moments."""

LONGEST_JOINED = 9
"""Maximum elements along an axis for which CPU and TPU join all parts of a window of moments in one
loop. On CPU, the variances of strided 3x3 windows take 0.4 of the time of two levels, and those of
tiled 7x7 windows take a quarter. On v5e, the gradient of 9x9 windows moves a tenth of the bytes,
but the gradient of 15x15 windows moves fewer bytes in levels."""

MIN_STORED_SUMS = 4
"""Elements of non-overlapping windows from which CPU stores their sums and averages, in channels
last. With the gradients, the statistics of a batch then take 0.9 of the time after 2x2 windows and
0.55 after 4x4, a ReLU 0.9 and 0.67, and a sigmoid 1.2 and 1.0."""

MAX_IN_NETWORK, MAX_IN_SHARED_NETWORK = 64, 25
"""Maximum elements of a window for which order statistics sort slices by comparators, and for which
one network on TPU finds two of them. For 100 elements, comparators take as long as a search by bits
and compile four times as long. By two networks, by the figures of the compiler for v6e, the
gradient of 6x6 medians takes a tenth of the time, that of 5x5 medians 1.03."""

LONGEST_ORDERED = 2**14
"""Elements over which the windows of a block of order statistics start; these stay in cache."""

MIN_BLOCK_OF_ORDERED = 4
"""Minimum length of a block in window lengths; blocks then read elements little more than once."""

# --- filters --------------------------------------------------------------------------------------

MAX_TAPS_UNROLLED = 32
"""Maximum number of taps for which the program has one slice per tap; more taps run in a loop."""

MAX_ADDED_AT_ONCE = 7
"""Maximum number of taps that a sum adds sequentially. With 6, means of 7x7 take three times the
memory. For sums of 8 taps, two levels take a fifth less time than one."""

COST_OF_LEVEL = 2
"""Cost of one more level of composed windows in a sum, in additions."""

ROWS_OF_BLOCK, SHORTEST_IN_BLOCKS, MIN_ROW_OF_BLOCKS = 4, 11, 16
"""Rows per block, and minimum taps and minimum elements of a row for which sums over windows are
sums of blocks. In planes, they then take a fourth to two thirds of the time of composed windows."""

MAX_TAPS_AT_ONCE = 2**20
"""Maximum number of taps of all windows of a block, which a function receives as one array."""

# --- TPU and GPU, and several platforms -----------------------------------------------------------

MAX_PAIRS_ADDED_AT_ONCE = 32
"""As MAX_ADDED_AT_ONCE, for pairs of floats on GPU and TPU, where storing sums costs more than
reading the array again. Means of 31x31 then move 3.5 times the bytes of their arrays on an H100
instead of 8.1 times, and on v5e, including vector memory, 3.6 times instead of 12.6."""

SHORTEST_DOUBLED_ON_TPU = 7
"""Minimum elements on an axis for which TPU composes the values of windows from smaller windows."""

MIN_ROW_TILED_ON_GPU = 32
"""Minimum elements of non-overlapping windows along the contiguous axis for which GPU reduces
tiles. On an H200, they then take 0.6 to 0.85 of the time of ``lax.reduce_window``."""

SHORTEST_DOUBLED_ON_GPU = 64
"""Minimum elements on an axis, divided by its stride, for which GPU composes the values of windows
from smaller windows. On an H100, ``lax.reduce_window`` takes 13.6 times as long as a copy for 101
elements, and the argmax, so composed, 3.2 times. Adding them one by one would lose digits."""

MIN_SEPARATED_ON_GPU, MIN_SEPARATED_ON_TPU = 25, 25
"""Minimum elements of a window for which values on GPU, and sums on TPU, are computed axis by axis:
on an H100, 5x5 then takes 0.7 of the time in channels last and 1.1 in channels first."""

MIN_16_BIT_SEPARATED_ON_GPU = 9
"""As MIN_SEPARATED_ON_GPU, for dtypes of less than 32 bits. On an H100, 3x3 in bfloat16 then takes
0.7 of the time, as do transposes of strided sums in float32."""

LONGEST_ADAPTIVE_SLID = 7
"""Maximum elements on an axis for which adaptive windows of equal length and stride are computed as
those of fixed pooling. Longer windows that tile the axis are reduced in parallel on GPU and TPU.
CPU finds the argmax of 12x12, overlapping by one, in a sixth of the time if they are ragged."""

LONGEST_SUMMED = 256
"""Maximum elements on an axis for which a sum on TPU, and its transpose on GPU and TPU, reads every
element: an addition costs less than storing the sums of smaller windows."""

MIN_PLANES = 2**16
"""Minimum number of planes of at most LONGEST_SUMMED elements, neighbours in memory, for which each
is reduced by one thread on GPU. A window of 7x7 then takes 0.6 of the time of ``lax.reduce``."""

LONGEST_SUMMED_IN_ROWS_ON_TPU, LONGEST_SHIFTED_ON_TPU = 7, 9
"""As LONGEST_SUMMED, if only the contiguous axis is pooled, and for shifted rows. On v5e, a rolling
mean of 101 of 1e6 samples then moves 16 MB instead of 2,056 MB and compiles in 1 s instead of 53 s;
means of 9x9 of 4 images of 112x112x64 take 73 us instead of 104, of 15x15 370 instead of 152."""

MAX_CHAINED_ON_GPU = 16
"""Maximum elements of a window for which the argmax on GPU is one chain over all axes. On an H100,
axis by axis takes 0.46 of the time for 5x5, 0.24 for 7x7, and 1.6 for 3x3."""

LONGEST_CHAINED_ON_GPU = CHAIN_RADIX_ON_GPU = 16
"""Maximum elements on an axis for which the argmax along it is one chain on GPU, and number of
smaller windows that compose a longer axis at each level."""

MAX_MATCHED_ON_TPU, MAX_MASKED_LATE_ON_TPU = 36, 16
"""Maximum elements of a strided window for which the argmax on TPU is one chain over all axes, and
for which the chain masks each element. In float32 on v5e, 5x5 at stride 2 takes 82 us, axis by axis
533; 7x7 takes 1651 us in 53 kernels, axis by axis 766. On 32 masked images of 112x112x128, 3x3 then
moves 321 MB, with a masked copy 989; 5x5 would move 3738 MB, with a masked copy 784."""

MATCH_RADIX_ON_TPU = 4
"""Number of smaller windows that compose an axis at each level of an argmax on TPU. On v5e, 13x13
in bfloat16 takes 156 us, and 312 us with one level of 13; along lanes, 2 is a tenth faster."""

KERNEL_CODED_ON_TPU = (3, 3)
"""Elements along the pooled axes of a window, where there are several, for which a maximum on TPU
is encoded axis by axis if only its derivative reads the argmax. On v6e, values and gradient of 64
images of 28x28x192 then take 163 us in float32 instead of 209."""

MAX_TERMS_ON_GPU, MAX_TERMS_ON_TPU = 16, 16
"""Maximum number of terms that one step of a scatter adds. On an H100, axis by axis takes 0.5 of
the time for 5x5, 0.24 for 7x7, and 1.2 for 3x3. XLA:TPU fuses 16 terms and stores 25 one by one."""

MAX_TERMS_AT_ANY_OFFSET_ON_GPU = 49
"""As MAX_TERMS_ON_GPU, for offsets that are not an argmax. One step must add all of their terms: a
loop would be two to eight times as slow on an H100."""

MAX_MOMENTS_ON_GPU, MAX_MOMENTS_ON_TPU = 16, 25
"""Maximum elements of a window for which one kernel computes its mean and squared deviations from
shifted reads of the array. On an H100, 7x7 with its gradient would take four times as long. XLA:TPU
does not fuse 49 terms."""

LONGEST_JOINED_ON_GPU = 16
"""As LONGEST_JOINED, on GPU, and also for joining all windows that contain an element. On an H100,
variances of 15x15 windows at stride 1 then move half of the bytes, 0.7 with their gradient."""

MAX_WEIGHTED_ON_GPU, MAX_WEIGHTED_ON_TPU = 49, 36
"""Maximum elements of a window for which one kernel adds all weighted elements. XLA:TPU stores 49
terms one by one, and thus moves up to seven times the bytes of axis by axis."""

MAX_WEIGHTED_AT_BORDERS = 16
"""Maximum number of windows across a border of an axis for which all weights are written out."""

LONGEST_WEIGHTS = 1024
"""Maximum number of windows of an axis for which their weights are constants, which XLA makes part
of the kernel. For longer axes, 6 to 12 small kernels compute the weights."""

MAX_TERMS_AT_ONCE = 16
"""Maximum elements of a window for which the terms of scaled sums are recomputed for each window
that contains the element, on CPU if windows do not overlap. At 3x3, GPU and TPU then move 5 to 27
times fewer bytes for values. Values of tiles take 0.05 to 0.5 of the time on CPU."""

MIN_TERMS_STORED_ON_TPU = 6
"""Minimum elements of windows at stride 1 for which TPU stores the terms of scaled sums before it
joins them. On v5e, 3x3 log-sum-exps of 64x112x112x128 bfloat16 then take 2760 us, not 5063."""

BYTES_OF_TILE, MAX_BYTES_OF_KERNEL = 4096, 12 << 20
"""Bytes of a tile of 8 or 16 images and 128 channels in the vector memory of a TPU, and maximum
bytes of one kernel there: a kernel may use 16 MiB without asking for more."""

MAX_IN_LOOP_BODY = 64
"""Maximum elements that one loop body in a TPU kernel reads for its windows before it stores."""

MAX_BYTES_OF_BOXES, MIN_READ_AT_ONCE = 2**26, 512
"""Maximum bytes of the images of the boxes in a step on GPU and TPU, to bound memory, and minimum
elements that CPU reads in a step. 100 boxes of 7x7 bins, 0.05 to 0.4 of 200x272x64, then take 0.004
of the time for maxima, 0.1 for sums; boxes of full images and 3 channels would take 10 times."""

MAX_SAMPLES_GATHERED, MIN_RATIO_GATHERED_ON_TPU = 2, 16
"""Maximum samples of a bin along an axis for which a sum gathers what it reads, and the minimum
ratio of an image to these elements on TPU; on GPU 1, on CPU none. With two samples, 1,000 boxes of
7x7 bins on images of 200x304x256 then move 0.6 GB on an H100 and 4.7 on v5e instead of 190 and 125;
of 50x50, v5e would move 3.7 instead of 0.7. CPU takes 0.2 to 0.9 of the time of whole boxes."""
