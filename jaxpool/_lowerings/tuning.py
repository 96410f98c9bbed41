"""Every tuned constant: where one way to compute becomes slower than another.

Results do not depend on any of them. Those of TPU and GPU, at the end, were chosen by the figures
of their compilers. ``benchmarks/accelerators.py`` prints these of maxima, and ``costs`` of
``benchmarks/compilers.py`` of any other function, such as an average, for the value that stands
here. Each of the others was chosen on XLA:CPU (jaxlib 0.10.2, x86-64, two cores) and is measured
anew by

    python benchmarks/tuning.py [NAME..]

which runs the cases of a constant with other values in its place, the programs taking turns. It
prints what each value costs, the geometric mean over the cases of the time relative to the fastest
value, and says where the committed value is more than 20 % above the best one. Limits of dtypes and
of mathematics are no tuning and stand where they are used.
"""

# --- values and argmax by slices ------------------------------------------------------------------

LONGEST_SLICED = 6
"""Elements on an axis up to which overlapping windows are slices, above that windows of windows."""

LONGEST_SLICED_STRIDED = 16
"""Elements on an axis up to which values are slices if no element is read more than LONGEST_SLICED
times: windows of windows are computed at every element, also where no window starts. Longer ones
are up to twice as fast too, but programs grow with the slices."""

LONGEST_SLICED_SUM = 7
"""As LONGEST_SLICED, of sums where the contiguous axis is not pooled."""

LEAST_NARROW_ROW, MOST_NARROW_ROW = 3, 15
"""Elements of a row of which strided sums along one axis are left to ``lax.reduce_window``: means
of 5 to 9 elements take 0.4 to 0.9 of the time of slices so, of rows of 2 or 16 up to twice."""

SHORTEST_PADDED_ROW = 3
"""Elements from which sums and extremes at stride 1 along the contiguous axis, padded, are left to
``lax.reduce_window`` where they would be slices: of 3x3 means take 0.4 to 0.8 of the time so, and
maxima 0.6 to 0.9."""

MOST_COPIED = 2**17
"""Elements of an array up to which sums at stride 1 are slices of a padded copy: they compile in
half the time or less and take 0.9 to 1.2 times as long. Of larger arrays they take 1.5 to 1.9 times
as long."""

LONGEST_SLICED_APART = 32
"""As LONGEST_SLICED, of the argmax of windows that do not overlap, in channels last."""

LONGEST_SLICED_ROWS = 32
"""As LONGEST_SLICED_APART, where the contiguous axis is pooled."""

LEAST_ROWS = 4
"""Elements on the other axes from which the argmax of windows along the contiguous axis is found in
whole rows: loops are then as long as a row, but the maximum is stored for each of its elements."""

MOST_JOINT = 9
"""Elements of a window over neighbouring axes up to which one loop reads all of them. One axis
after the other reads fewer, but stores what lies between."""

FEW_ELEMENTS = 4
"""Elements of a window up to which it may be computed twice: values beside the argmax by a loop of
their own, the argmax of 16-bit floats in float32, a result anew by what reads it."""

MOST_FUSED = 16
"""Elements of windows that do not overlap up to which the argmax along one axis is not stored for
the next one."""

LEAST_BYTES_OF_SEGMENTS = 2**24
"""Bytes of an array from which values and argmax come from one loop for each segment. To read the
array once then saves more than it costs to concatenate the results."""

ARGREDUCE_RADIX = 4
"""Smaller windows that a long window is made of at each level of an argmax."""

# --- tiles ----------------------------------------------------------------------------------------

LONGEST_PASS, LONGEST_PASS_ROWS = 128, 16
"""Elements of a tile along an axis up to which a maximum is taken of slices, one axis after the
other; the second where the contiguous axis is pooled."""

LONGEST_SUM_PASS_ROWS = 14
"""As LONGEST_PASS_ROWS, of sums."""

SHORTEST_SUM_PASS, LONGEST_SUM_PASS, LEAST_SIZE_OF_SUM_PASS = 7, 32, 2**20
"""Elements of a tile along an axis, and of an array, between which sums are taken of slices, where
the contiguous axis is not pooled."""

# --- gather and scatter ---------------------------------------------------------------------------

MOST_SLICED_OFFSETS = 64
"""Elements of a window up to which a gather has a slice for every offset."""

OFFSETS_AT_ONCE = 8
"""Offsets that a step of a loop over all of them reads. One at a time takes ten times as long; 16
take 0.7 to 1.1 of the time, and compile up to twice as long."""

MOST_SCATTERED = 9
"""Elements of overlapping windows, and of windows in rows, up to which one loop scatters all."""

MOST_UNSTORED = 4
"""Elements of a window up to which a scatter in channels last reads cotangents as they are made."""

MOST_PADDED_WINDOWS = 2**18
"""Windows up to which a scatter of strided windows pads them, which saves XLA:CPU loops at the
borders. Gradients of 3x3/2 maxima compile in 0.5 to 0.7 of the time and take 0.9 to 1.2 times as
long; beyond, the copies cost memory."""

MOST_PADDED_SHIFTS = 2
"""Windows that hold an element of the contiguous axis, up to which a strided transpose along the
axis pads what each of them gives, which saves XLA:CPU loops at the ends. Gradients of 3x3/2 in
channels first compile in 0.8 to 0.9 of the time, take 0.7 to 1.05 times as long and hold 11 bytes
an output in place of 18; with 3 windows soft pools of 5/2 take 1.3 times as long."""

LONGEST_SCATTERED = 7
"""Elements on an axis up to which a transpose along the axis has a slice for every offset."""

SCATTER_RADIX = 6
"""Smaller windows that a long window is made of at each level of a scatter."""

# --- windows as an axis ---------------------------------------------------------------------------

MOST_STACKED = 64
"""Elements of a window up to which ``windows`` stacks a slice for every offset. A reduction of the
windows then fuses with the slices, and no windows are stored; beyond, sums take many times as
long. A function that does not fuse takes 2.5 s to compile at 100 elements, of two steps 0.3 s."""

LONGEST_STACKED = 32
"""Elements on an axis up to which ``windows`` stacks them in one step, above that in two."""

# --- counts ---------------------------------------------------------------------------------------

LONGEST_CONSTANT_RUN = 64
"""Windows with equal counts up to which their counts are a constant of the program."""

MOST_FULL_RUNS = 32
"""Runs of windows with one first offset up to which each is an array of a number, which XLA folds.
On jax 0.10 a constant of one platform is a constant of the programs of all."""

MOST_CONSTANT_COUNTS = 4096
"""Windows up to which the counts of all axes together are a constant of the program.

Padded 3x3 averages with their gradient compile in 0.8 to 0.98 of the time, and run as fast."""

# --- ragged windows, indices, terms, ranks --------------------------------------------------------

LONGEST_RAGGED = 64
"""Elements of the longest of ragged windows along an axis up to which each offset is a slice."""

MOST_RAGGED_JOINT = 32
"""Elements of a ragged window over several axes that one loop reads."""

MOST_RAGGED_GROUPS = 8
"""Groups of regular windows up to which slices are quicker than gathers."""

MOST_GROUPS_ON_TPU, MOST_RAGGED_ONE_BY_ONE = 3, 32
"""Groups of regular windows up to which TPU, too, takes slices; windows up to which it reduces one
after the other. 7 of 32 along two axes move 39 MB so, and 122 by slices; 30 of 94, in 6 groups, 140
and 378."""

MOST_RAGGED_COMPARED = 16
"""Windows, no more than elements, up to which each element of the contiguous axis is compared with
all of them, where gathers are slow."""

MOST_COMPARED_IN_BLOCK = 64
"""Elements of a block of ``max_unpool`` up to which an index is compared with each of them."""

LONGEST_TERMS_SLICED = 16
"""Elements on an axis up to which the transpose of scaled sums with strides has a slice for every
offset, and "slices" may be asked for."""

JOIN_RADIX = 6
"""Smaller windows that a long window of scaled sums or moments is made of at each level."""

LONGEST_JOINED = 9
"""Elements along an axis up to which CPU and TPU join all parts of a window of moments in one loop.
On CPU the variances of 3x3 windows with strides take 0.4 of the time of two levels, those of tiled
7x7 ones a quarter. On v5e a gradient of 9x9 moves a tenth; of 15x15 it moves less in levels."""

LEAST_STORED_SUMS = 4
"""Elements of non-overlapping windows from which CPU stores their sums and averages. Of 2x2 windows
the statistics of a batch take 0.7 of the time, with their gradient 0.65 and in bfloat16 0.75, a
sigmoid with its gradient 0.75 and 0.32, a sigmoid alone 1.5. Of two elements a sigmoid with its
gradient takes 1.2."""

MOST_IN_NETWORK = 64
"""Elements of a window up to which order statistics sort slices by comparators. At 100 they take as
long as a search by bits and compile four times as long."""

LONGEST_ORDERED = 2**14
"""Elements that windows of order statistics start from in one block: its arrays stay in cache."""

LEAST_BLOCK_OF_ORDERED = 4
"""Lengths of a window that one block of order statistics holds at least: its windows then read
their elements little more than once."""

# --- filters --------------------------------------------------------------------------------------

MOST_TAPS_UNROLLED = 32
"""Taps up to which each is a slice of its own in the program; more are visited in a loop."""

MOST_ADDED_AT_ONCE = 7
"""Taps of a sum that are added one after the other. With 6, means of 7x7 take three times the
memory and no less time, and those of 31 along columns, which are 7 sums of blocks, a third more
memory; of 8 taps, two levels take a fifth less time than one."""

COST_OF_LEVEL = 2
"""What another level of windows of windows costs in a sum, in additions."""

ROWS_OF_BLOCK, SHORTEST_IN_BLOCKS, LEAST_ROW_OF_BLOCKS = 4, 11, 16
"""Rows of a block; taps, and elements of a row, from which sums over windows are sums of blocks. In
planes they take a fourth to two thirds of the time of windows of windows; they lose where a row is
the 3 channels of an image."""

MOST_TAPS_AT_ONCE = 2**20
"""Taps of all windows of a block, which a function of a window gets as one array."""

# --- TPU and GPU ----------------------------------------------------------------------------------

MOST_PAIRS_ADDED_AT_ONCE = 32
"""As MOST_ADDED_AT_ONCE, of pairs of floats on GPU and TPU, where storing sums costs more than to
read the array again. Means of 31x31 then move 3.5 times what their arrays hold on an H100 in place
of 8.1, and on v5e, its vector memory counted, 3.6 in place of 12.6."""

SHORTEST_DOUBLED_ON_TPU = 7
"""Elements on an axis from which values are windows of windows on TPU."""

SHORTEST_DOUBLED_ON_GPU = 64
"""Elements on an axis, for each element of its stride, from which values on GPU are windows of
windows. ``lax.reduce_window`` takes 13.6 times a copy for 101 elements on an H100, and the argmax,
made of smaller windows, 3.2. Sums of so many elements one by one would lose digits."""

LEAST_SEPARATED_ON_GPU, LEAST_SEPARATED_ON_TPU = 25, 25
"""Elements of a window from which values on GPU, and sums on TPU, are found along one axis after
the other. On an H100, 5x5 takes 0.7 of the time so in channels last and 1.1 in channels first, 7x7
0.5 and 0.7. 3x3 takes 1.2."""

LEAST_NARROW_SEPARATED_ON_GPU = 9
"""As LEAST_SEPARATED_ON_GPU, of less than 32 bits: there the same bytes are more elements. On an
H100, 3x3 in bfloat16 takes 0.7 of the time so. So do transposes of strided sums in float32."""

LONGEST_ADAPTIVE_SLID = 7
"""Elements on an axis up to which adaptive windows of one length and stride slide as those of fixed
pooling do. Longer ones that tile the axis are reduced in parallel on GPU and TPU; of those that
overlap by an element CPU finds the argmax of 12x12 in a sixth of the time if they are ragged."""

LONGEST_SUMMED = 256
"""Elements on an axis up to which a sum on TPU, and its transpose on GPU and TPU, reads each: an
addition costs less than storing the sums of smaller windows."""

LONGEST_SUMMED_IN_ROWS_ON_TPU = 7
"""As LONGEST_SUMMED, where the contiguous axis alone is pooled. On v5e, a rolling mean of 101 of
1e6 samples moves 16 MB in place of 2,056 and compiles in 1 s in place of 53. Windows over two axes
would move ten times as much so."""

MOST_CHAINED_ON_GPU = 16
"""Elements of a window up to which the argmax is one chain over all axes on GPU. On an H100, 5x5
takes 0.46 of the time along one axis after the other, 7x7 0.24, and 3x3 1.6."""

LONGEST_CHAINED_ON_GPU = CHAIN_RADIX_ON_GPU = 16
"""Elements on an axis up to which the argmax along it is one chain on GPU, and smaller windows that
a longer axis is made of at each level. On an H100, two chains of 31 take 13.6 times as long as one
axis of 101 in levels of 16."""

MOST_MATCHED_ON_TPU = 36
"""Elements of a window up to which the argmax of strided windows is one chain over all axes on TPU:
of 5x5 at stride 2 in float32 in 82 us on a v5e, along one axis after the other in 533. Of 7x7
XLA:TPU makes 53 kernels, in 1651 us and 766. Windows without overlap take as long as tiles."""

MATCH_RADIX_ON_TPU = 4
"""Smaller windows that an axis is made of at each level of an argmax on TPU. On v5e, 13x13 in
bfloat16 take 156 us so and 312 with one level of 13; along lanes 2 is quicker by a tenth."""

MOST_TERMS_ON_GPU, MOST_TERMS_ON_TPU = 16, 16
"""Terms that one step of a scatter adds. On an H100, 5x5 takes 0.5 of the time along one axis after
the other, 7x7 0.24, and 3x3 1.2. XLA:TPU stores 25 terms one by one and fuses 16."""

MOST_TERMS_AT_ANY_OFFSET_ON_GPU = 49
"""As MOST_TERMS_ON_GPU of offsets that are no argmax, which one step has to take: a loop would be
two to eight times as slow on an H100."""

TERMS_RADIX = 6
"""Smaller windows that a long window is made of at each level of a scatter on TPU and GPU."""

MOST_MOMENTS_ON_GPU, MOST_MOMENTS_ON_TPU = 16, 25
"""Elements of a window up to which its mean and its squared deviations are computed from shifted
reads of the array, in one kernel. With their gradient, those of 7x7 take four times as long so on
an H100. XLA:TPU does not fuse 49 terms."""

LONGEST_JOINED_ON_GPU = 16
"""As LONGEST_JOINED on GPU, there with all windows of an element, in one kernel for each axis.
Variances of 15x15 windows at stride 1 then move half on an H100, with their gradient 0.7."""

MOST_WEIGHTED_ON_GPU, MOST_WEIGHTED_ON_TPU = 49, 36
"""Elements of a window up to which all its weighted elements are added in one kernel. XLA:TPU
stores 49 terms one by one, and so moves up to seven times what one axis after the other does."""

MOST_WEIGHED_AT_BORDERS = 16
"""Windows of an axis that reach over a border, up to which the weights of each are written out."""

LONGEST_WEIGHTS = 1024
"""Windows of an axis up to which their weights are constants, which XLA makes part of the kernel.
Those of longer axes are made by 6 to 12 small kernels, lest constants weigh down the program."""

MOST_TERMS_AT_ONCE = 16
"""Elements of a window up to which terms of scaled sums are made anew for each window that holds
the element, on GPU and TPU. At 3x3 values move 5 to 27 times less so, and values with the gradient
2 to 6 times less. XLA:TPU takes several times as long to compile them."""

LEAST_TERMS_STORED_ON_TPU = 6
"""Elements of windows at stride 1 from which TPU stores terms of scaled sums before it joins them.
On v5e, `logsumexp_pool` of 3x3 takes 2760 us so on 64 images of 112x112x128 in bfloat16, and 5063
with terms made anew. Of 3 elements along an axis it would take 574 us in place of 296."""

BYTES_OF_TILE, MOST_BYTES_OF_KERNEL = 4096, 12 << 20
"""Of a tile of 8 or 16 images and 128 channels in a TPU's vector memory, and of one kernel there:
a kernel may use 16 MiB without asking for more."""

MOST_IN_LOOP_BODY = 64
"""Elements of the windows that one body of a loop in a TPU kernel reads, before it stores any."""

MOST_BYTES_OF_BOXES = 2**26
"""Bytes of the images of boxes that one step on GPU and TPU takes, a bound on memory: a step for
each box would be a kernel or more for each."""

MOST_SAMPLES_GATHERED, LEAST_SHARE_GATHERED_ON_TPU = 2, 16
"""Samples of a bin along an axis up to which GPU and TPU gather the elements that a sum of a box
reads, and how many times as many an image must have on TPU; on GPU it must have more. With two
samples, 1,000 boxes of 7x7 bins on images of 200x304 in 256 channels move 0.6 GB on an H100 and 4.7
on v5e, and 190 and 125 otherwise. On v5e those on 50x50 would move 3.7 GB in place of 0.7."""
